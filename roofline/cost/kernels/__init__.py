"""Calibrated kernel times: a published formula per kind of operator, fitted to measurements."""
