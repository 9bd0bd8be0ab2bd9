"""Files of measurements, and the collectives in them in groups that one fit may hold."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from roofline.bench.exchange_rows import algorithms
from roofline.bench.held_out import octaves
from roofline.cost.kernels.collective import CUSTOM, NCCL
from roofline.hardware.catalog import gpu, node
from tests.bench.regime_fit import Rows

if TYPE_CHECKING:
    import pandas

FOLDER: Final = Path(__file__).resolve().parents[2].parent / "shared" / "measurements"
WHOLE: Final = ("elementwise", "vidur_collectives", "vidur_gemm")
"""Files that the second release did not replace."""
SAMPLE: Final = "h200_sxm"
"""Device that has the shipped fits of another one, corrected by one factor."""
ENGINES: Final[Mapping[str, Mapping[str, str]]] = {
    "gemm": {"a100_sxm": "sglang", "h100_sxm": "trtllm", SAMPLE: "trtllm"},
    "attention_prefill": {"a100_sxm": "vllm", "h100_sxm": "trtllm", SAMPLE: "trtllm"},
    "attention_decode": {"a100_sxm": "vllm", "h100_sxm": "vllm", SAMPLE: "vllm"},
    "mla_prefill": {"a100_sxm": "trtllm", "h100_sxm": "trtllm", SAMPLE: "trtllm"},
    "mla_decode": {"a100_sxm": "trtllm", "h100_sxm": "trtllm", SAMPLE: "trtllm"},
    "mla_bmm": dict.fromkeys(
        ("a100_sxm", "l40s", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300"),
        "sglang trtllm vllm",
    ),
    "moe": {"a100_sxm": "trtllm", "h100_sxm": "trtllm", SAMPLE: "trtllm"},
    "collectives": {"a100_sxm": "nccl-tests trtllm-custom", "h100_sxm": "nccl-tests trtllm-custom"},
    "deepep": {"h100_sxm": "deepep"},
    "quantize": {"h100_sxm": "sglang trtllm vllm"},
    "linear_attention": {"h100_sxm": "sglang trtllm vllm", "b200_sxm": "sglang trtllm vllm"},
    "attention_encoder": {"h100_sxm": "sglang trtllm vllm", "b200_sxm": "sglang trtllm vllm"},
    "mhc": {"h100_sxm": "sglang trtllm vllm", "b200_sxm": "sglang trtllm vllm"},
    "mlp": {"h100_sxm": "sglang"},
}
"""Engines whose kernels the shipped fits describe, by file and device; the files have more."""


def file(name: str) -> Path:
    """Path of the measurements of one kind of kernel."""
    return (FOLDER if name in WHOLE else FOLDER / "v2") / f"{name}.parquet"


def needs(*paths: Path) -> pytest.MarkDecorator:
    """Mark that skips a test where a file is missing, which the reason names."""
    missing = [str(path) for path in paths if not path.is_file()]
    return pytest.mark.skipif(
        bool(missing), reason=f"no measurements to compare with; missing: {', '.join(missing)}"
    )


@cache
def measured(name: str) -> "pandas.DataFrame":
    """Rows of a file, of the devices and engines whose kernels the shipped fits describe."""
    import pandas as pd

    rows = pd.read_parquet(file(name))
    for column in rows.select_dtypes("category"):
        rows[column] = rows[column].astype(str)
    if name in WHOLE:
        return rows
    pairs = {(gpu, engine) for gpu, each in ENGINES[name].items() for engine in each.split()}
    known = [pair in pairs for pair in zip(rows.gpu, rows.backend, strict=True)]
    return rows[known].reset_index(drop=True)


NODES: Final = {"a100_sxm": "hgx-a100-8", "h100_sxm": "hgx-h100-8"}
SWITCH_ADDS: Final = {"a100_sxm": False, "h100_sxm": True}
"""NVSwitch of the Hopper generation and later."""
INTEGERS: Final = {"int8"}
"""Types that NCCL does not add in the switch."""
OPS: Final = {"alltoall": "all_to_all"}
RELEASES: Final = {
    "2.23": "2.23",
    "2.27.3": "2.27-2.29",
    "2.29.2": "2.27-2.29",
    "1.0.0": "1.0",
    "1.2.0rc5": "1.2",
    "1.3.0rc10": "1.3",
    "1.3.0rc20": "1.3",
    "sarathi-vidur": "vidur",
}
"""Releases are one library where their times agree: 2.27 and 2.29, and the two of 1.3, within 1 %
(median); 2.23 and 2.27 differ by 5-9 %, 1.2 and 1.3 by 8 %."""
DENSE: Final = 8
"""Rows kept of each octave and rank count: one source has up to 256, 1 µs of noise apart."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one library, machine and operation.

    ``layout`` is what the source calls it: ``dpn4`` uses 4 devices of each node. ``across`` is
    that number where the ranks are on several nodes, else 0.
    """

    gpu: str
    library: str
    release: str
    op: str
    layout: str
    across: int
    bytes_per_s: float
    paths: tuple[str, ...]
    rows: Rows

    @property
    def name(self) -> str:
        ranks = f" n={self.rows.ranks.max():.0f}" if self.layout else ""
        words = [self.gpu[:4], self.library, self.release, self.op, self.layout]
        return " ".join(word for word in words if word) + ranks


def link(machine: str, across: int) -> float:
    """Published rate in one direction: of a device's NVLink, or of a node's network adapters."""
    network = node(NODES[machine]).network
    assert network is not None, machine
    return across * network.bytes_per_s if across else gpu(machine).links["nvlink"].bytes_per_s


@cache
def groups() -> tuple[Group, ...]:
    import pandas as pd

    frame = pd.concat([measured("collectives"), measured("vidur_collectives")])
    per_node = frame.topology.str.extract(r"dpn(\d+)$")[0].astype(float).fillna(8.0)
    frame["across"] = per_node.where(frame.n_ranks > per_node, 0.0).astype(int)
    frame["release"] = frame.version.map(RELEASES)
    frame["op"] = frame.op.replace(OPS)
    return tuple(_split(frame))


def _split(frame: "pandas.DataFrame") -> Iterator[Group]:
    for _, part in frame.groupby(["backend", "gpu", "release", "op", "topology", "across"]):
        first = part.iloc[0]
        machine, library, op = str(first.gpu), str(first.backend), str(first.op)
        across = int(first.across)
        adds = SWITCH_ADDS[machine] and not across
        rows = Rows(
            part.bytes.to_numpy(np.float64),
            part.n_ranks.to_numpy(np.float64),
            part.time_s.to_numpy(np.float64),
            adds & ~part.dtype.isin(INTEGERS).to_numpy(np.bool_),
        )
        yield Group(
            machine,
            library,
            str(first.release),
            op,
            str(first.topology).partition("dgx_")[2],
            across,
            link(machine, across),
            algorithms(
                CUSTOM if library == "trtllm-custom" else NCCL,
                op,
                in_switch=adds and op == "all_reduce",
            ),
            rows[_thinned(rows)] if library == "torch-nccl" else rows,
        )


def _thinned(rows: Rows) -> NDArray[np.bool_]:
    """Evenly spaced sizes of each octave and rank count."""
    keep = np.zeros(len(rows), dtype=np.bool_)
    octave = octaves(rows.payload)
    for kind in np.unique(octave):
        for ranks in np.unique(rows.ranks):
            found = np.flatnonzero((octave == kind) & (rows.ranks == ranks))
            found = found[np.argsort(rows.payload[found])]
            keep[found[np.linspace(0, len(found) - 1, min(DENSE, len(found))).astype(int)]] = True
    return keep
