"""Errors of closed loops on networks left out, as the table that the guide and the README quote.

`roofline.bench.end_to_end.making` writes it with the constants: ``hwspecs/left-out.md``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from roofline.bench.end_to_end.ablation import percentages
from roofline.bench.end_to_end.driving import CLOSED
from roofline.bench.end_to_end.held_out import DEVIATIONS, HeldOut
from roofline.bench.end_to_end.replay import PreparedRow

HOPPER: Final = ("h100-sxm", "h200-sxm")
METRICS: Final = ("tpot_s", "ttft_s", "throughput_tok_s")
ALL: Final = ""
CHOICES: Final[Mapping[str, tuple[tuple[str, ...], str, bool]]] = {
    "all GPUs": ((), ALL, False),
    "H100 and H200": (HOPPER, ALL, False),
    "of these, SGLang": (HOPPER, "sglang", False),
    "of these, TensorRT-LLM": (HOPPER, "trtllm", False),
    "of these, vLLM": (HOPPER, "vllm", False),
    "H100 and H200, medians": (HOPPER, ALL, True),
    "B200": (("b200-sxm",), ALL, False),
}
"""Lines of the table: devices and engine of their rows, all where none is named, and whether only
medians of these are known."""
HEAD: Final = (
    "| rows | number | TPOT | inside | TTFT | inside | throughput | inside |",
    "|---|---|---|---|---|---|---|---|",
)
TEXT: Final = """# Closed loops on networks left out

Written by `python -m roofline.bench.end_to_end.making e2e.csv.gz`: absolute errors in percent,
median / mean / 90th percentile, by constants that were fitted without the network under its engine
on any device, and the share of rows in their 80 % interval.

{table}
"""


def table(rows: Sequence[PreparedRow], scored: HeldOut) -> list[str]:
    """Lines of the table, as they are quoted.

    Args:
        rows: Measured rows; those of other modes are left out.
        scored: Their predictions on networks left out.
    """
    lines = list(HEAD)
    for title, (devices, engine, median) in CHOICES.items():
        places = [
            place
            for place, row in enumerate(each.row for each in rows)
            if row.mode == CLOSED
            and row.median == median
            and row.case.gpu in (devices or (row.case.gpu,))
            and row.engine in (engine or row.engine,)
            and "tpot_s" in row.measured
        ]
        if places:
            cells = [cell for metric in METRICS for cell in _cells(rows, scored, places, metric)]
            lines.append(f"| {' | '.join([title, f'{len(places):,}', *cells])} |")
    return lines


def _cells(
    rows: Sequence[PreparedRow], scored: HeldOut, places: Sequence[int], metric: str
) -> tuple[str, str]:
    """Errors of a metric of some rows, and the share inside; empty where none has it."""
    off, inside = [], []
    for place in places:
        if (measured := rows[place].row.measured.get(metric)) is not None:
            ratio = scored.metrics[place][metric] / measured
            off.append(abs(ratio - 1.0))
            inside.append(abs(np.log(ratio)) <= DEVIATIONS * scored.log_sd[place][metric])
    return (percentages(np.array(off)), f"{100 * np.mean(inside):.0f} %") if off else ("", "")
