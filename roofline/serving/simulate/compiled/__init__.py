"""The inner loop, on plain arrays, compiled when a simulation first runs."""
