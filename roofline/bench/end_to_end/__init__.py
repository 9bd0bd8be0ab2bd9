"""Measured end-to-end rows: TTFT, TPOT, latency and throughput of engines, predicted row by row.

`end_to_end` reads rows in the columns of the shared measurements, prices the steps of each
deployment by measured kernels, serves the row's workload over them in an event loop with the
fitted constants of its engine, and returns every metric with an interval.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.bench.end_to_end.predicting import end_to_end
    from roofline.bench.end_to_end.result import EndToEnd, Metric

__all__ = ["EndToEnd", "Metric", "end_to_end"]


def __getattr__(name: str) -> Any:
    """Names when they are asked for: who prices a deployment reads a profile and fits nothing."""
    if name == "end_to_end":
        from roofline.bench.end_to_end.predicting import end_to_end

        return end_to_end
    if name in ("EndToEnd", "Metric"):
        from roofline.bench.end_to_end import result

        return getattr(result, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
