"""Requests in, a server that steps through them, and when each of them was served."""

from roofline.cost.engine_costs import IDEAL, EngineCosts
from roofline.serving.simulate.placing import server_of
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.simulate.run import simulate, stream
from roofline.serving.simulate.served import Served, Totals
from roofline.serving.simulate.server import POLICIES, Server
from roofline.serving.simulate.steady import Share, Steady, arriving, closed, share_of

__all__ = [
    "IDEAL",
    "POLICIES",
    "EngineCosts",
    "Served",
    "Server",
    "Share",
    "Steady",
    "StepPrices",
    "Totals",
    "arriving",
    "closed",
    "server_of",
    "share_of",
    "simulate",
    "step_prices",
    "stream",
]
