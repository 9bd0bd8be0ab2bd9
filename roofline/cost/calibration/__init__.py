"""Operators priced by kernels that were measured: on this device, or on the one most like it."""
