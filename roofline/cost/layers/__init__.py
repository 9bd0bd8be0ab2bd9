"""Operators of each kind of layer: one module for each kind, put together in `blocks`."""
