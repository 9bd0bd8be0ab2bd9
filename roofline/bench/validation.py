"""Errors of predicted kernels, row by row, beside the plain roofline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench import (
    exchange_rows,
    expert_rows,
    kernel_rows,
    layer_rows,
    sparse_rows,
    wide_rows,
)
from roofline.bench.columns import RefusedRows, prepared
from roofline.bench.datasheet import datasheet
from roofline.bench.held_out import DEVIATIONS, Mask, coverage, errors
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.predictors import Predictor
from roofline.cost.work import Array
from roofline.errors import InputError, RooflineError, described

if TYPE_CHECKING:
    import pandas

Reader = Callable[["pandas.DataFrame"], Iterator[RowGroup]]

READERS: Final[Mapping[str, Reader]] = {
    "gemm": layer_rows.linear_groups,
    "attention-prefill": kernel_rows.prefill_groups,
    "attention-decode": kernel_rows.decode_groups,
    "mla-prefill": kernel_rows.latent_prefill_groups,
    "mla-decode": kernel_rows.latent_decode_groups,
    "mla-module": kernel_rows.module_groups,
    "mla-bmm": kernel_rows.head_groups,
    "sparse-attention": sparse_rows.sparse_groups,
    "msa": sparse_rows.sparse_groups,
    "moe": expert_rows.expert_groups,
    "moe-wideep": wide_rows.wide_groups,
    "moe-mega": wide_rows.mega_groups,
    "moe-alltoall": exchange_rows.alltoall_groups,
    "collective": exchange_rows.collective_groups,
    "deepep": exchange_rows.exchange_groups,
    "quantize": layer_rows.quantise_groups,
    "pointwise": layer_rows.pass_groups,
    "linear-attention": layer_rows.linear_attention_groups,
    "attention-encoder": layer_rows.encoder_groups,
    "mhc": layer_rows.hyper_groups,
    "mlp": layer_rows.mlp_groups,
}
"""Reader of a file of measurements into groups that one fit may hold, by kind of kernel."""
APART: Final = (
    "gpu",
    "backend",
    "version",
    "kernel",
    "dtype",
    "kv_dtype",
    "gemm_dtype",
    "phase",
    "mode",
    "op",
    "topology",
    "node_num",
)
"""Columns that divide rows into groups: a group that cannot be read does not stop the others."""
MIXED: Final[Mapping[str, tuple[str, ...]]] = {
    "collective": ("version", "dtype"),
    "mhc": ("kernel",),
    "mlp": ("phase",),
    "moe-mega": ("phase",),
}
"""Columns of `APART` in which rows of one group may differ, by kind."""
LEFT: Final = "the kernel takes these rows for another operator, such as a prefill of one token"
FIGURES: Final = ("median", "mean", "p90")


class Validation(Struct, frozen=True):
    """Predicted and measured times of the rows of a file of measurements."""

    frame: "pandas.DataFrame"
    """The rows asked for, as they are in the file."""
    measured: Array
    predicted: Array
    datasheet: Array
    """Times; NaN where a row is not predicted. [s]"""
    log_sd: Array
    """Standard deviation of the logarithm of the prediction. [1]"""
    basis: NDArray[np.object_]
    """Origin of the prediction of each row, in words; empty where there is none."""
    refused: tuple[RefusedRows, ...]
    """Rows that are not predicted, and why."""

    @property
    def known(self) -> Mask:
        """Rows that are predicted."""
        found: Mask = np.isfinite(self.predicted)
        return found

    def interval(self) -> tuple[Array, Array]:
        """Ends of the central 80 % of each row. [s]"""
        width = np.exp(DEVIATIONS * self.log_sd)
        return self.predicted / width, self.predicted * width

    def figures(self, which: Mask | None = None) -> dict[str, Any]:
        """Errors in percent, shares from 0 to 1, of some rows or of all.

        Args:
            which: Rows; None for all.
        """
        asked = np.ones(len(self.measured), dtype=np.bool_) if which is None else which
        rows = asked & self.known
        number, whole = int(rows.sum()), int(asked.sum())
        out: dict[str, Any] = {
            "n": number,
            "n_total": whole,
            "coverage": number / whole if whole else 0.0,
            **dict.fromkeys(FIGURES),
            "interval_coverage": None,
            "datasheet": dict.fromkeys(FIGURES),
        }
        if number:
            measured, predicted = self.measured[rows], self.predicted[rows]
            out |= _percent(predicted, measured)
            out["interval_coverage"] = coverage(predicted, self.log_sd[rows], measured)
            out["datasheet"] = _percent(self.datasheet[rows], measured)
        return out

    def grouped(self, names: Sequence[str]) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
        """Figures of rows that agree in some columns; those that the file lacks are empty."""
        without = [""] * len(self.frame)
        columns = [[*map(str, self.frame.get(name, without))] for name in names]
        keys = np.array(list(zip(*columns, strict=True)), dtype=object)
        together: dict[tuple[str, ...], list[int]] = {}
        for row, key in enumerate(map(tuple, keys)):
            together.setdefault(key, []).append(row)
        for key, rows in sorted(together.items(), key=lambda item: [_order(v) for v in item[0]]):
            which = np.zeros(len(self.measured), dtype=np.bool_)
            which[rows] = True
            yield dict(zip(names, key, strict=True)), self.figures(which)


def _percent(predicted: Array, measured: Array) -> dict[str, float]:
    found = errors(predicted, measured)
    return {name: 100.0 * getattr(found, name) for name in FIGURES}


def _order(word: str) -> tuple[float, str]:
    """Numbers by size, then words."""
    try:
        return float(word), ""
    except ValueError:
        return np.inf, word


def validate(
    kind: str, frame: "pandas.DataFrame", predictor: Predictor, *, where: str = ""
) -> Validation:
    """Predict every row that can be, and say why of each that cannot.

    Args:
        kind: Of kernel, a key of `READERS`.
        frame: Measurements, in the columns of that kind.
        predictor: `roofline.bench.predictors.left_out`, or one of a profile.
        where: File they are from, for errors.

    Raises:
        InputError: No such kind, or a column that it needs is missing.
    """
    if kind not in READERS:
        raise InputError(f"no kind of kernel is called {kind!r:.40}", hint=f"{', '.join(READERS)}")
    rows, refused = prepared(kind, frame, where)
    groups = list(_groups(kind, rows, refused))
    whole = frame.reset_index(drop=True)
    measured, predicted, plain, log_sd = np.full((4, len(whole)), np.nan)
    basis = np.full(len(whole), "", dtype=object)
    for group, found in zip(groups, predictor(groups), strict=True):
        if isinstance(found, RooflineError):
            refused.append(RefusedRows(_where(group.name), group.index, described(found)))
            continue
        measured[group.index], plain[group.index] = group.measured, datasheet(group)
        predicted[group.index], log_sd[group.index] = found.seconds, found.log_sd
        basis[group.index] = found.basis
        if (none := ~np.isfinite(found.seconds)).any():
            refused.append(RefusedRows(_where(group.name), group.index[none], found.why))
            basis[group.index[none]] = ""
    return Validation(whole, measured, predicted, plain, log_sd, basis, tuple(refused))


def _groups(kind: str, rows: "pandas.DataFrame", refused: list[RefusedRows]) -> Iterator[RowGroup]:
    """Groups of what can be read; what cannot is refused."""
    key = [name for name in APART if name in rows and name not in MIXED.get(kind, ())]
    for values, part in rows.groupby(key, observed=True, dropna=False):
        name = _where(dict(zip(key, map(str, values), strict=True)))
        index = part.index.to_numpy().astype(np.int64)
        try:
            groups = list(READERS[kind](part))
        except RooflineError as error:
            refused.append(RefusedRows(name, index, described(error)))
            continue
        yield from groups
        read = np.concatenate([index[:0], *(group.index for group in groups)])
        if len(read) < len(index):
            refused.append(RefusedRows(name, np.setdiff1d(index, read), LEFT))


def _where(name: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in name.items() if value)
