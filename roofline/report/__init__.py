"""A result as one HTML file that opens anywhere: result → facts → figures → page."""

from roofline.report.page import render, write

__all__ = ["render", "write"]
