"""Errors of closed loops on networks left out, as the table that the guide and the README quote.

`roofline.bench.end_to_end.making` writes it with the constants: ``hwspecs/left-out.md``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from roofline.bench.end_to_end.ablation import percentages
from roofline.bench.end_to_end.driving import CLOSED
from roofline.bench.end_to_end.held_out import DEVIATIONS, HeldOut
from roofline.bench.end_to_end.replay import Known

HOPPER: Final = ("h100-sxm", "h200-sxm")
METRICS: Final = ("tpot_s", "ttft_s", "throughput_tok_s")
CHOICES: Final[Mapping[str, Callable[[Known], bool]]] = {
    "all GPUs": lambda each: not each.row.median,
    "H100 and H200": lambda each: each.row.case.gpu in HOPPER and not each.row.median,
    **{
        f"of these, {title}": lambda each, name=name: (
            each.row.case.gpu in HOPPER and not each.row.median and each.row.engine == name
        )
        for name, title in (("sglang", "SGLang"), ("trtllm", "TensorRT-LLM"), ("vllm", "vLLM"))
    },
    "H100 and H200, medians": lambda each: each.row.case.gpu in HOPPER and each.row.median,
    "B200": lambda each: each.row.case.gpu == "b200-sxm" and not each.row.median,
}
"""Lines of the table: rows of a closed loop that a condition holds for."""
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


def table(rows: Sequence[Known], scored: HeldOut) -> list[str]:
    """Lines of the table, as they are quoted.

    Args:
        rows: Measured rows; those of other modes are left out.
        scored: Their predictions on networks left out.
    """
    lines = list(HEAD)
    for title, chosen in CHOICES.items():
        places = [
            place
            for place, each in enumerate(rows)
            if each.row.mode == CLOSED and chosen(each) and "tpot_s" in each.row.measured
        ]
        if places:
            cells = [cell for metric in METRICS for cell in _cells(rows, scored, places, metric)]
            lines.append(f"| {' | '.join([title, f'{len(places):,}', *cells])} |")
    return lines


def _cells(
    rows: Sequence[Known], scored: HeldOut, places: Sequence[int], metric: str
) -> tuple[str, str]:
    """Errors of a metric of some rows, and the share inside; empty where none has it."""
    off, inside = [], []
    for place in places:
        if (measured := rows[place].row.measured.get(metric)) is not None:
            ratio = scored.metrics[place][metric] / measured
            off.append(abs(ratio - 1.0))
            inside.append(abs(np.log(ratio)) <= DEVIATIONS * scored.log_sd[place][metric])
    return (percentages(np.array(off)), f"{100 * np.mean(inside):.0f} %") if off else ("", "")
