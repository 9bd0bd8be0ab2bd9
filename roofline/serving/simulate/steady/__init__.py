"""The long run of a server in closed form: no requests, no events."""

from roofline.serving.simulate.steady.closed_form import Steady, arriving, closed
from roofline.serving.simulate.steady.errors import ERRORS, Error
from roofline.serving.simulate.steady.pace import most
from roofline.serving.simulate.steady.share import RequestMeans, lacking, share_of

__all__ = [
    "ERRORS",
    "Error",
    "RequestMeans",
    "Steady",
    "arriving",
    "closed",
    "lacking",
    "most",
    "share_of",
]
