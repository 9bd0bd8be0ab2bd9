"""A result as one HTML file that opens anywhere: result → facts → figures → page."""

from roofline.report.files import write
from roofline.report.page import render

__all__ = ["render", "write"]
