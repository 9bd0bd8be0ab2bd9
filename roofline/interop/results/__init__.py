"""Results of benchmarks that other tools wrote: what was run, and each measured figure."""

from roofline.interop.results.reading import known_formats, read_results
from roofline.interop.results.run import Given, MeasuredRun, Measurement, Scenario

__all__ = ["Given", "MeasuredRun", "Measurement", "Scenario", "known_formats", "read_results"]
