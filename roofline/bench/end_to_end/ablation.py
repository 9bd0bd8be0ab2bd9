"""Errors of predictions without each mechanism of an engine in turn.

``python -m roofline.bench.end_to_end.ablation e2e.csv.gz`` predicts clients in closed loops on H100
and H200 with one mechanism after the other switched off, and writes ``hwspecs/ablation.md``.
Constants are as shipped and not fitted again, so that none takes over for what is switched off.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from roofline import files
from roofline.bench import arguments
from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.cases import read
from roofline.bench.end_to_end.driving import CLOSED
from roofline.bench.end_to_end.engines import CONSTANTS, KERNELS
from roofline.bench.end_to_end.metrics import NAMES, Metrics, predictions, predictions_at
from roofline.bench.end_to_end.predicting import OK, prepared
from roofline.bench.end_to_end.replay import PreparedRow, known
from roofline.content import shipped
from roofline.cost.work import Array
from roofline.records import replace
from roofline.serving.simulate.server import UNLIMITED, Server

if TYPE_CHECKING:
    import pandas

EVERY: Final = {**CONSTANTS, **KERNELS}
DEVICES: Final = ("h100_sxm", "h200_sxm")
METRICS: Final = ("tpot_s", "ttft_s")
MOVED: Final = 0.001
"""Share by which a prediction differs that a mechanism moves. [1]"""
PLAIN: Final = "guidellm"
"""Family of rows whose clients send equal lengths, each prompt its own."""


SERVERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "hold_steps": (
        "prompts wait for other copies of attention (attention_dp_config of TensorRT-LLM)",
        {"hold_steps": 0},
    ),
    "chunks": ("prompts are cut to fill a step (vLLM, SGLang)", {"policy": "continuous"}),
    "token_budget": (
        "limit on the new tokens of a step, and chunks",
        {"policy": "continuous", "token_budget": 0},
    ),
    "first": ("steps of prompts go before decoding (SGLang)", {"first": "decode"}),
    "kv_tokens": ("room for the KV cache limits what is admitted", {"kv_tokens": UNLIMITED}),
    "reservation": ("room for answers is reserved at admission", {"reservation": 0.0}),
    "sharing": ("prompts of a pool find their KV cache again", {"sharing": False}),
    "recv_interval": ("looks at new requests every so many steps (SGLang)", {"recv_interval": 1}),
    "stream_interval": ("tokens are handed over several together", {"stream_interval": 1}),
}
"""Mechanisms of a server: meaning, and its settings without each."""


def _switched_off(server: Server, settings: Mapping[str, Any]) -> Server:
    """The server with other settings; one that does not cut prompts keeps its policy."""
    kept = {} if server.policy == "chunked" else {"policy": server.policy}
    return replace(server, **{**settings, **kept})


class Ablation(Struct, frozen=True):
    """Predictions of rows without one mechanism."""

    name: str
    meaning: str
    """Mechanism that is switched off, and what it is; empty for predictions as they are."""
    metrics: Sequence[Metrics]
    """Predicted metrics of each row, in SI units."""


def ablations(rows: Sequence[PreparedRow]) -> Iterator[Ablation]:
    """Predictions of rows of closed loops as they are, and without each mechanism in turn."""
    logs, _ = profiles.load()
    names = list(EVERY)
    found = predictions_at(rows, np.stack([logs, *(_without(name, logs) for name in names)]))
    yield Ablation("", "", [each[0] for each in found])
    plain = [
        known(replace(each.row, family=PLAIN, lengths=None, spread=None, requests=0.0))
        for each in rows
    ]
    yield Ablation(
        "harness", f"how clients were driven: all are read as {PLAIN}'s", predictions(plain, logs)
    )
    for name, (meaning, without) in SERVERS.items():
        changed = [replace(each, server=_switched_off(each.server, without)) for each in rows]
        differ = [place for place, each in enumerate(rows) if each.server != changed[place].server]
        metrics = [each[0] for each in found]
        again = predictions([changed[place] for place in differ], logs)
        for place, metric in zip(differ, again, strict=True):
            metrics[place] = metric
        yield Ablation(name, meaning, metrics)
    for vector, name in enumerate(names, 1):
        constant = EVERY[name]
        meaning = f"{constant.meaning}: {'0 s' if constant.unit == 's' else '1'}"
        yield Ablation(name, meaning, [each[vector] for each in found])


def _without(name: str, logs: Array) -> Array:
    """Logarithms of constants with one of every engine that adds nothing: 0 s, or a factor of 1."""
    off = -np.inf if EVERY[name].unit == "s" else 0.0
    mine = [each.rpartition(".")[2] == name for each in NAMES]
    return np.where(mine, off, logs)


def table(rows: Sequence[PreparedRow], found: Sequence[Ablation]) -> list[str]:
    """Lines of a table: errors of all rows without each mechanism, and of the rows it moves."""
    whole = found[0].metrics
    lines = [
        "| without | what it is | TPOT | TTFT | rows it moves | their TPOT | their TTFT |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in found:
        moved = [
            any(abs(one[name] / other[name] - 1.0) > MOVED for name in METRICS)
            for one, other in zip(each.metrics, whole, strict=True)
        ]
        every = [True] * len(rows)
        cells = [_errors(rows, each.metrics, name, every, 3) for name in METRICS]
        mine = [
            " → ".join(_errors(rows, of, name, moved, 1) for of in (whole, each.metrics))
            if any(moved)
            else ""
            for name in METRICS
        ]
        what = [f"`{each.name}`", each.meaning] if each.name else ["nothing", "as shipped"]
        lines.append(f"| {' | '.join([*what, *cells, f'{sum(moved):,}', *mine])} |")
    return lines


def _errors(
    rows: Sequence[PreparedRow],
    metrics: Sequence[Metrics],
    name: str,
    wanted: Sequence[bool],
    most: int,
) -> str:
    """Errors of some rows, as `percentages`."""
    chosen = compress(zip(rows, metrics, strict=True), wanted)
    return percentages(absolute(chosen, name), most)


def absolute(pairs: Iterable[tuple[PreparedRow, Metrics]], name: str) -> Array:
    """Absolute errors of rows with a metric, from their predictions. [1]"""
    return np.array(
        [
            abs(metrics[name] / each.row.measured[name] - 1.0)
            for each, metrics in pairs
            if name in each.row.measured
        ]
    )


def percentages(off: Array, most: int = 3) -> str:
    """Median, mean and 90th percentile of errors in percent, or the first of these.

    Examples:
        >>> percentages(np.array([0.1, 0.1, 0.4]))
        '10.0 / 20.0 / 34.0'
    """
    figures = (np.median(off), np.mean(off), np.quantile(off, 0.9))
    return " / ".join(f"{100 * figure:.1f}" for figure in figures[:most])


def closed_loops(frame: "pandas.DataFrame") -> list[PreparedRow]:
    """Rows of closed loops on `DEVICES` whose quality is ok, with what served them."""
    chosen = frame["mode"].eq(CLOSED) & frame["quality"].eq(OK) & frame["gpu"].isin(DEVICES)
    return prepared(read(frame[chosen].reset_index(drop=True))[0])[0]


TEXT: Final = """# Engine mechanisms, switched off one at a time

Written by `python -m roofline.bench.end_to_end.ablation e2e.csv.gz`: absolute errors in percent,
median / mean / p90, of {rows:,} measured rows of clients in closed loops on H100 and H200. What is
switched off is a time of 0, or a factor of 1. The constants left are as shipped, which saw these
rows, and are not fitted again, so that none takes over. The last columns are medians over the rows
that a mechanism moves, with it → without it. A constant without which these rows do better is held
by rows of other devices, or by another constant.

{table}
"""


def main(path: Path, out: Path) -> None:
    """Write the table of a file of measurements."""
    import pandas as pd

    rows = closed_loops(pd.read_csv(path, low_memory=False))
    lines = table(rows, list(ablations(rows)))
    text = TEXT.format(rows=len(rows), table="\n".join(lines))
    with files.text_output(out) as file:
        file.write(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    asked = arguments.parser("roofline.bench.end_to_end.ablation", __doc__)
    asked.add_argument("file", type=arguments.file, help="measured rows: e2e.csv.gz")
    given = asked.parse_args()
    arguments.answer(asked, lambda: main(given.file, shipped("hwspecs") / "ablation.md"))
