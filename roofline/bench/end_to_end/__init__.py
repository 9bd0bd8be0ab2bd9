"""Measured end-to-end rows: TTFT, TPOT, latency and throughput of engines, predicted row by row.

`predicting` reads rows in the columns of the shared measurements, prices the steps of each
deployment by measured kernels, serves the row's workload over them in an event loop with the
fitted constants of its engine, and returns every metric with an interval.
"""
