"""From a folder of measurements to the calibrations that are shipped, in parallel.

``python -m roofline.bench.shipping.making MEASUREMENTS [KIND[/KERNEL] …]`` writes
``hwspecs/calibrations/<device>/<provider>.zip`` and the index, and prints what moved. With kinds,
or kernels of a kind by a part of their names, the fits of all others stay as they are.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench import arguments
from roofline.bench.columns import prepared
from roofline.bench.datasheet import datasheet
from roofline.bench.exchange_rows import CUSTOM_ENDS
from roofline.bench.exported import exported
from roofline.bench.fit import fit_and_score
from roofline.bench.held_out import DEVIATIONS, errors
from roofline.bench.kernel_rows import RowGroup, release
from roofline.bench.records import PACKED, read_records
from roofline.bench.rows import checked
from roofline.bench.shipping.files import IndexEntry, entries, folder, pack, stored, unpack, write
from roofline.bench.shipping.variants import KINDS, label_of
from roofline.bench.validation import READERS
from roofline.content import shipped
from roofline.cost.calibration.kernel import PASSES, FitLabel, FittedKernel
from roofline.cost.kernels.catalog import FORMS
from roofline.errors import RooflineError
from roofline.records import replace
from roofline.study.executors import cores

if TYPE_CHECKING:
    import pandas

FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "gemm": ("v2/gemm",),
    "attention-prefill": ("v2/attention_prefill",),
    "attention-decode": ("v2/attention_decode",),
    "mla-prefill": ("v2/mla_prefill",),
    "mla-decode": ("v2/mla_decode",),
    "mla-module": ("v2/mla_module",),
    "mla-bmm": ("v2/mla_bmm",),
    "sparse-attention": ("v2/sparse_attention",),
    "msa": ("v2/msa",),
    "moe": ("v2/moe",),
    "moe-wideep": ("v2/moe_wideep",),
    "moe-mega": ("v2/moe_mega",),
    "moe-alltoall": ("v2/moe_alltoall",),
    "collective": ("v2/collectives", "vidur_collectives"),
    "deepep": ("v2/deepep",),
    "quantize": ("v2/quantize",),
    "pointwise": ("elementwise",),
    "linear-attention": ("v2/linear_attention",),
    "attention-encoder": ("v2/attention_encoder",),
    "mhc": ("v2/mhc",),
    "mlp": ("v2/mlp",),
}
"""Names of the files of each kind."""
OWN: Final[Mapping[str, str]] = {"pointwise": PASSES}
"""Kinds of which probes of the project's own are shipped, and the provider that they are of."""
MEASURED_ON: Final = "h200-sxm"
"""Device of the run beside whose passes the engines are fitted."""
RECORDS: Final = "records"
"""Folder of those runs, packed, in ``hwspecs``."""
SOURCES: Final[Mapping[str, str]] = {
    "vidur": "microsoft/vidur @7d47513 (MIT)",
    PASSES: "probes of this project, in graphs (hwspecs/records)",
    "": "ai-dynamo/aiconfigurator @095f58a (Apache-2.0)",
}
"""Repositories of measured rows, by provider."""
MODULE: Final = "roofline.bench.shipping.making"
THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which libraries of linear algebra are told to keep to one thread: fits run side by
side, and more threads would make other bytes."""


def jobs_of(folder: Path, kinds: Iterable[str]) -> Iterator[tuple[FitLabel, RowGroup]]:
    """Groups of the newest release of each kernel, by what a fit of them is called.

    Args:
        folder: Of measurements.
        kinds: Keys of `FILES`.
    """
    import pandas as pd

    for kind in kinds:
        latest: dict[FitLabel, RowGroup] = {}
        files = [pd.read_parquet(folder / f"{name}.parquet") for name in FILES[kind]]
        for frame in [*files, *_own(kind)]:
            for column in frame.select_dtypes("category"):
                frame[column] = frame[column].astype(str)
            frame, _ = prepared(kind, frame, "")
            for group in READERS[kind](frame):
                label, version = label_of(kind, group.name), _release(group)
                if label not in latest or version >= _release(latest[label]):
                    latest[label] = whole(group)
        yield from latest.items()


def _own(kind: str) -> "Iterator[pandas.DataFrame]":
    """Rows of a kind that probes of the project measured."""
    if kind in OWN:
        path = shipped("hwspecs") / RECORDS / f"{MEASURED_ON}{PACKED}"
        yield exported(read_records(path), kind, OWN[kind])


def _release(group: RowGroup) -> tuple[tuple[int, ...], int]:
    """Order of groups that have one label: by release, then by number of rows."""
    return release(group.name.get("version", "")), len(group)


def whole(group: RowGroup) -> RowGroup:
    """A group whose form has a name: a collective's has all the algorithms of its library."""
    if group.form.kind != "collective" or group.form in FORMS.values():
        return group
    library = "custom-" * group.name["backend"].endswith(CUSTOM_ENDS)
    return replace(group, form=FORMS[f"collective-{library}{group.name['op'].replace('_', '-')}"])


_JOBS: Final[list[tuple[FitLabel, RowGroup]]] = []
"""Groups that processes forked from this one find by their place: equations are not sent."""


def fitted(job: int) -> tuple[IndexEntry, bytes] | tuple[FitLabel, str]:
    """A packed fit of a group and what the index says of it, or why there is none."""
    label, group = _JOBS[job]
    try:
        rows = checked(group.form, group.machine, group.dims, group.measured, group.families)
        model, left = fit_and_score(rows, source=_source(group))
        plain = errors(datasheet(group), group.measured).median
    except (RooflineError, ArithmeticError, LookupError, ValueError) as error:
        # A group that cannot be fitted never ends the others.
        return label, f"{type(error).__name__}: {error}"
    measured = group.measured[left.rows]
    found = errors(measured / np.exp(left.log_error), measured)
    entry = IndexEntry(
        label.device,
        label.provider,
        label.kind,
        label.variant,
        group.name.get("kernel", ""),
        group.name.get("version", ""),
        len(group),
        found.median,
        found.mean,
        found.p90,
        float((np.abs(left.log_error) <= DEVIATIONS * left.log_sd).mean()),
        plain,
    )
    return entry, pack(FittedKernel(label, group.arithmetic, model, entry.kernel))


def _source(group: RowGroup) -> str:
    told = ", ".join(f"{key} {value}" for key, value in group.name.items() if value)
    source = SOURCES.get(group.name.get("backend") or "vidur", SOURCES[""])
    return f"{len(group):,} rows of {source}: {told}"


def meant(kind: str, kernel: str, wanted: Iterable[str]) -> bool:
    """Whether a kernel of a kind of fits is one of those wanted, ``KIND`` or ``KIND/KERNEL``."""
    asked = (each.partition("/") for each in wanted)
    return any(KINDS[each] == kind and part in kernel for each, _, part in asked)


def filed(wanted: Iterable[str]) -> list[str]:
    """Keys of `FILES` that have rows of kinds of fits: those of one kind may be in several."""
    kinds = {KINDS[each.partition("/")[0]] for each in wanted}
    return [key for key in FILES if KINDS[key] in kinds]


def made(folder: Path, wanted: Sequence[str]) -> Iterator[tuple[IndexEntry, FittedKernel]]:
    """Fits of all groups that are wanted, the largest first; what cannot be fitted is told."""
    jobs = [
        (label, group)
        for label, group in jobs_of(folder, filed(wanted))
        if meant(label.kind, group.name.get("kernel", ""), wanted)
    ]
    _JOBS[:] = sorted(jobs, key=lambda job: -len(job[1]))
    with ProcessPoolExecutor(cores(), get_context("fork")) as pool:
        for first, second in pool.map(fitted, range(len(_JOBS))):
            if isinstance(second, bytes):
                assert isinstance(first, IndexEntry)
                yield first, unpack(first.label, second)
            else:
                sys.stderr.write(f"{first}: left out: {second!s}\n")


def main(measurements: Path, kinds: Sequence[str]) -> None:
    """Refit some kinds or kernels or all, write all fits, and print what moved."""
    began = time.perf_counter()
    wanted = tuple(kinds) or tuple(FILES)
    try:
        before = dict(entries())
    except (OSError, RooflineError):
        before = {}
    kept = [
        (entry, stored(label))
        for label, entry in before.items()
        if not meant(label.kind, entry.kernel, wanted)
    ]
    found = list(made(measurements, wanted))
    write([*kept, *((entry, pack(kernel)) for entry, kernel in found)], folder())
    for entry, _ in sorted(found, key=lambda fit: fit[0].label.__repr__()):
        old = before.get(entry.label)
        said = f"{entry.median:.1%} / {entry.p90:.1%}, {entry.inside:.0%} inside"
        if old is not None:
            said += f"  (was {old.median:.1%} / {old.p90:.1%})"
        where = f"{entry.device}/{entry.provider} {entry.kind}/{entry.variant}"
        sys.stdout.write(f"{where}: {said}\n")
    sys.stdout.write(f"{len(found)} fits in {time.perf_counter() - began:.0f} s\n")


if __name__ == "__main__":
    asked = arguments.parser(MODULE, __doc__)
    asked.add_argument("measurements", type=arguments.folder, help="folder of measurements")
    asked.add_argument(
        "kinds", nargs="*", type=arguments.kind_of(FILES), help="KIND or KIND/KERNEL; else all"
    )
    given = asked.parse_args()
    if any(os.environ.get(name) != "1" for name in THREADS):
        told = os.environ | dict.fromkeys(THREADS, "1")
        os.execve(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]], told)
    arguments.answer(asked, lambda: main(given.measurements, given.kinds))
