"""``roofline speculate``: what drafting tokens and verifying them together gains, and where not."""

import typer

from roofline.api.parameters import Drafting
from roofline.cli import options
from roofline.cli.answer import answered


@options.takes(
    Drafting, derives="tokens, draft, verify, tpot, speed_up, bound, ttft, latency, memory"
)
def speculate(context: typer.Context) -> None:
    """Price speculative decoding: tokens a round, draft and verification, TPOT with and without.

    Exits with 1 if it does not fit.
    """
    answered(context, Drafting)
