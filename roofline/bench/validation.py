"""How well calibrated forms predict measured kernels they did not see, row by row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofline.bench import kernel_rows, linear_rows
from roofline.bench.fit import cross_validate
from roofline.bench.held_out import Labels, coverage, errors
from roofline.bench.kernel_rows import Group
from roofline.cost.work import Array
from roofline.errors import InputError, RooflineError

if TYPE_CHECKING:
    import pandas

Reader = Callable[["pandas.DataFrame"], Iterator[Group]]

READERS: Final[Mapping[str, Reader]] = {
    "gemm": linear_rows.linear_groups,
    "attention-prefill": kernel_rows.prefill_groups,
    "attention-decode": kernel_rows.decode_groups,
    "mla-prefill": kernel_rows.latent_prefill_groups,
    "mla-decode": kernel_rows.latent_decode_groups,
    "mla-module": kernel_rows.module_groups,
    "mla-bmm": kernel_rows.head_groups,
    "moe": kernel_rows.expert_groups,
    "deepep": kernel_rows.exchange_groups,
    "quantize": linear_rows.quantise_groups,
    "pointwise": linear_rows.pass_groups,
}
"""From a file of measurements to groups that one fit may hold, by kind of kernel."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Rows of one group, predicted.

    Attributes
    ----------
    name
        Device, library, version, kernel and formats.
    index
        Places of the rows in the file. [1]
    measured, predicted
        Times. [s]
    log_sd
        Standard deviation of the logarithm of the prediction. [1]
    """

    name: Mapping[str, str]
    index: Labels
    measured: Array
    predicted: Array
    log_sd: Array


@dataclass(frozen=True, slots=True)
class Refused:
    """Rows that cannot be predicted, and why."""

    where: str
    rows: int
    why: str


@dataclass(frozen=True, slots=True)
class Validation:
    """What was predicted of a file of measurements.

    Attributes
    ----------
    scored, refused
        Groups that were predicted, and those that were not.
    rows
        In the file, as far as asked for. [1]
    """

    scored: tuple[Scored, ...]
    refused: tuple[Refused, ...]
    rows: int

    def figures(
        self, wanted: Sequence[Scored] | None = None, total: int | None = None
    ) -> dict[str, Any]:
        """Errors in percent, shares from 0 to 1, of some groups or of all.

        Parameters
        ----------
        wanted
            Groups; None for all.
        total
            Rows that there were; None for those of the file. [1]
        """
        groups = self.scored if wanted is None else wanted
        out: dict[str, Any] = dict.fromkeys(("median", "mean", "p90", "interval_coverage"))
        number = sum(len(group.measured) for group in groups)
        whole = self.rows if total is None else total
        out = {"n": number, "n_total": whole, "coverage": number / whole if whole else 0.0, **out}
        if number:
            measured, predicted, spread = (
                np.concatenate([getattr(group, name) for group in groups])
                for name in ("measured", "predicted", "log_sd")
            )
            found = errors(predicted, measured)
            out["median"], out["mean"], out["p90"] = (
                100 * found.median,
                100 * found.mean,
                100 * found.p90,
            )
            out["interval_coverage"] = coverage(predicted, spread, measured)
        return out


def validate(kind: str, frame: "pandas.DataFrame") -> Validation:
    """Predict each row by a fit that saw none of its family.

    Parameters
    ----------
    kind
        Of kernel, a key of `READERS`.
    frame
        Measurements, in the columns of that kind.

    Raises
    ------
    InputError
        No such kind, or a column that it needs is missing.
    """
    if kind not in READERS:
        raise InputError(f"no kind of kernel is called {kind!r:.40}", hint=f"{', '.join(READERS)}")
    numbered = frame.reset_index(drop=True)
    try:
        groups = list(READERS[kind](numbered))
    except (KeyError, AttributeError) as error:
        raise InputError(
            f"the measurements have no column {error.args[0]!s:.40} of {kind}",
            hint="give the columns of the shared measurements",
        ) from None
    scored, refused = [], []
    for group in groups:
        try:
            predicted, spread = cross_validate(
                group.form, group.dims, group.machine, group.measured, families=group.families
            )
        except RooflineError as error:
            refused.append(Refused(_where(group.name), len(group), str(error)))
            continue
        scored.append(Scored(group.name, group.index, group.measured, predicted, spread))
    known = sum(len(group) for group in groups)
    if left := len(numbered) - known:
        refused.append(
            Refused("other formats or operators", left, f"no form of {kind} is for them")
        )
    return Validation(tuple(scored), tuple(refused), len(numbered))


def _where(name: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in name.items())


def chosen(frame: "pandas.DataFrame", where: str) -> "pandas.DataFrame":
    """Rows for which all conditions hold, ``"gpu=h100_sxm,backend=vllm|trtllm"``.

    Parameters
    ----------
    frame
        Measurements.
    where
        Conditions with commas between them, each a column and values with bars between them.

    Raises
    ------
    InputError
        A condition is none, or names no column.
    """
    for clause in filter(None, (part.strip() for part in where.split(","))):
        keep = np.zeros(len(frame), dtype=np.bool_)
        column = ""
        for option in clause.split("|"):
            name, equals, value = option.partition("=")
            column, value = (name.strip(), value) if equals else (column, name)
            if not column or column not in frame:
                raise InputError(
                    f"--where {clause!r:.60} names no column of the file",
                    hint=f"columns: {', '.join(map(str, frame.columns))}",
                )
            keep |= (frame[column].astype(str) == value.strip()).to_numpy()
        frame = frame[keep]
    return frame
