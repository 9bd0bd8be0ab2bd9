"""Recorded requests: published traces, and a plain table of your own."""

from roofline.interop.traces.mooncake import write_trace
from roofline.interop.traces.reading import Trace, read_trace, stream_trace

__all__ = ["Trace", "read_trace", "stream_trace", "write_trace"]
