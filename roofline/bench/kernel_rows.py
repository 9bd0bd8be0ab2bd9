"""Measured attention as columns of `roofline.cost.kernels`.

A group is what one fit may hold: one device, library, kernel and number formats. Its families are
the shapes that are left out together.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.held_out import Labels
from roofline.cost.kernels import decode, latent, latent_module, latent_prefill, prefill
from roofline.cost.kernels.form import Form, Machine, machine, take
from roofline.cost.kernels.gemm import PRODUCTS
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.records import replace

if TYPE_CHECKING:
    import pandas

WIDTHS: Final[Mapping[str, float]] = {"bfloat16": 2.0, "float16": 2.0, "fp8": 1.0}
"""Bytes per element of activations and caches."""
WEIGHTS: Final[Mapping[str, float]] = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "nvfp4": 0.5625,
}
"""Bytes per weight of a projection."""
SINGLE: Final = "flash_attn"
"""Kernels that run a prefill of one token as a decode step, whose rows are left out."""
NARROW: Final = 64
"""Head width that some engines have other kernels for."""
SIZES: Final = (8.0, 64.0)
"""Sequences from which a batch is medium, and large."""
FEW: Final = 4
"""Families that a fit needs at least; where shapes are fewer, batches tell them apart too."""
ATTENTION: Final = ("batch", "seq_q", "seq_kv", "n_heads", "n_kv_heads", "head_dim", "window")
LATENT: Final = ("batch", "seq_q", "seq_kv", "n_heads")
SHAPE: Final = ("n_heads", "n_kv_heads", "head_dim", "window")
KEY: Final = ("gpu", "backend", "version", "kernel", "dtype")
WITH_CACHE: Final = (*KEY, "kv_dtype")

Name = dict[str, str]


class RowGroup(Struct, frozen=True):
    """Rows that one fit may hold."""

    name: Name
    """Device, library, version, kernel and formats."""
    form: Form
    machine: Machine
    """Equation, and the device at published rates."""
    dims: dict[str, Array]
    """Columns of the form."""
    measured: Array
    """Times. [s]"""
    families: Labels
    """Label of each row: rows of a family are left out together."""
    index: Labels
    """Places of the rows in the file. [1]"""
    arithmetic: str
    """Type of arithmetic whose published rate the machine is given."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.measured)

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> "RowGroup":
        """Some of the rows."""
        return replace(
            self,
            dims=take(self.dims, which),
            measured=self.measured[which],
            families=self.families[which],
            index=self.index[which],
        )


def group_of(
    name: Name,
    form: Form,
    dims: dict[str, Array],
    rows: "pandas.DataFrame",
    families: Labels,
    arithmetic: str = "bf16",
) -> RowGroup:
    """Group of measured rows, with their times and places in the file."""
    return RowGroup(
        name,
        form,
        machine(gpu(name["gpu"]), arithmetic),
        dims,
        rows.time_s.to_numpy(np.float64),
        families,
        rows.index.to_numpy().astype(np.int64),
        arithmetic,
    )


def parts(
    frame: "pandas.DataFrame", key: Sequence[str]
) -> Iterator[tuple[Name, "pandas.DataFrame"]]:
    """Rows that agree in some columns, and what they agree in."""
    for values, rows in frame.groupby(list(key), observed=True):
        yield dict(zip(key, map(str, values), strict=True)), rows


def families(
    rows: "pandas.DataFrame", family: Sequence[str], split: Sequence[str] = (), few: int = 0
) -> Labels:
    """Label of each row by its shape, and by its split too where shapes are few.

    Args:
        rows: Measurements.
        family, split: Columns of the shape, and those that tell rows of one shape apart.
        few: Shapes below which the split counts. [1]
    """
    found = rows.groupby(list(family), observed=True).ngroup()
    if found.nunique() < few:
        found = rows.groupby([*family, *split], observed=True).ngroup()
    return found.to_numpy().astype(np.int64)


def columns(rows: "pandas.DataFrame", names: Sequence[str]) -> list[Array]:
    """Columns in float64."""
    return [rows[name].to_numpy(np.float64) for name in names]


def prefill_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Prefill attention; TensorRT-LLM computes in fp8 where the cache is in fp8.

    On Ada its kernels in fp8 differ by head width: those for 64 and 256 start blocks four times
    as slowly and reach half the rate or less.
    """
    for name, rows in parts(frame, WITH_CACHE):
        some = rows[rows.seq_q > 1] if SINGLE in name["kernel"] else rows
        generation = gpu(name["gpu"]).architecture
        split = {"": some}
        if (name["backend"], name["dtype"], generation) == ("trtllm", "fp8", "ada"):
            narrow, wide = some.head_dim == NARROW, some.head_dim == prefill.WIDE
            split = {"": some[~(narrow | wide)], "narrow": some[narrow], "wide": some[wide]}
        low = "fp8" in (name["dtype"], name["kv_dtype"])
        for heads, part in split.items():
            if len(part):
                dims = prefill.prefill_dims(
                    *columns(part, ATTENTION),
                    *_widths(part),
                    kernel=name["kernel"],
                    generation=generation,
                )
                told = name | {"heads": heads} if heads else name
                yield _group(told, prefill.FORM, dims, part, SHAPE, low=low)


def decode_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Decode attention, in a group for each kernel that TensorRT-LLM has.

    Its kernels for grouped heads take up to 32 heads of a group. Larger groups, and heads without a
    group before Blackwell, run masked multi-head attention, one head at a time.
    """
    for name, rows in parts(frame, WITH_CACHE):
        grouped = rows.n_heads / rows.n_kv_heads
        if name["backend"] != "trtllm":
            yield _decode(name, rows)
            continue
        alone = (grouped == 1) & (gpu(name["gpu"]).architecture not in latent.PAIRED)
        large = grouped > decode.MOST_GROUPED
        kinds = {"": rows[~(alone | large)], "alone": rows[alone], "wide-group": rows[large]}
        for heads, part in kinds.items():
            if len(part):
                yield _decode(name | {"heads": heads}, part)


def _decode(name: Name, rows: "pandas.DataFrame") -> RowGroup:
    shape, single = (*columns(rows, ATTENTION), *_widths(rows)), bool(name.get("heads"))
    dims = decode.decode_dims(*shape, kernel=name["kernel"], single=single)
    return _group(name, decode.FORM, dims, rows, SHAPE)


def latent_decode_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Decoding of multi-head latent attention."""
    for name, rows in parts(frame, WITH_CACHE):
        shape = (*columns(rows, LATENT), *_widths(rows))
        dims = latent.latent_dims(
            *shape, generation=gpu(name["gpu"]).architecture, kernel=name["kernel"]
        )
        yield _group(name, latent.DECODE, dims, rows, ("n_heads",), low=name["kv_dtype"] == "fp8")


def latent_prefill_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Prefill of multi-head latent attention, which computes in 16 bits."""
    for name, rows in parts(frame, WITH_CACHE):
        shape = (*columns(rows, LATENT), *_widths(rows))
        dims = latent_prefill.latent_prefill_dims(*shape, kernel=name["kernel"])
        inside = name["kernel"] in latent_prefill.INSIDE_KERNELS
        form = latent_prefill.INSIDE if inside else latent_prefill.FORM
        yield _group(name, form, dims, rows, ("n_heads",))


def module_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Multi-head latent attention with its projections; heads absorb the latent while decoding.

    vLLM absorbs short prefills too, where it names the kernel that decodes.
    """
    key = tuple(name for name in (*WITH_CACHE, "op", "phase", "gemm_dtype") if name in frame)
    for name, rows in parts(frame, key):
        absorbed = name["phase"] == "decode" or "MLA" in name["kernel"]
        wide = rows.replace({"dtype": {"fp8_block": "bfloat16"}})  # of the projections only
        shape = (*columns(rows, LATENT), *_widths(wide))
        device = gpu(name["gpu"])
        narrow = PRODUCTS[name["gemm_dtype"]].arithmetic
        faster = device.rate(narrow) / device.rate("bf16") if narrow in device.flops_per_s else 1.0
        own = {
            "weight_width": _mapped(rows, "gemm_dtype", WEIGHTS),
            "faster": np.full(len(rows), faster),
        }
        if absorbed:
            generation, kernel = device.architecture, name["kernel"]
            dims = latent.latent_dims(*shape, generation=generation, kernel=kernel) | own
            yield _group(name, latent_module.ABSORBED, dims, rows, ("n_heads",))
        else:
            dims = latent_module.expanded_dims(*shape[:-1], **own)
            yield _group(name, latent_module.EXPANDED, dims, rows, ("n_heads",))


def head_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Matrices of each head around latent decoding."""
    for name, rows in parts(frame, (*KEY, "op")):
        tokens, heads = columns(rows, ("num_tokens", "n_heads"))
        low = name["dtype"] == "fp8"
        into = name["op"] == "mla_gen_pre"
        dims = {
            "tokens": tokens,
            "heads": heads,
            "inner": np.full_like(tokens, latent_module.PLAIN if into else latent_module.LATENT),
            "weight_width": np.full_like(tokens, WIDTHS[name["dtype"]]),
            "quantised": np.full_like(tokens, float(low)),
        }
        dims = latent_module.heads_dims(dims, name["kernel"])
        narrow = dims["quantised"].any()
        form = latent_module.HEADS if narrow else latent_module.WIDE_HEADS
        yield _group(name, form, dims, rows, ("n_heads",), low=low)


def _mapped(rows: "pandas.DataFrame", name: str, values: Mapping[str, float]) -> Array:
    return np.array([values[str(value)] for value in rows[name]])


def _widths(rows: "pandas.DataFrame") -> list[Array]:
    return [_mapped(rows, name, WIDTHS) for name in ("dtype", "kv_dtype")]


def _group(
    name: Name,
    form: Form,
    dims: dict[str, Array],
    rows: "pandas.DataFrame",
    family: tuple[str, ...],
    *,
    low: bool = False,
) -> RowGroup:
    """A group in bf16, or in fp8 where the device has it."""
    device = gpu(name["gpu"])
    arithmetic = "fp8" if low and "fp8" in device.flops_per_s else "bf16"
    if "batch" in rows:
        sized = rows.assign(size=np.digitize(rows.batch, SIZES))
        alike = families(sized, family, ("size",), FEW)
    else:
        alike = families(rows, family)
    return group_of(name, form, dims, rows, alike, arithmetic)


def newest(versions: Iterable[str]) -> str:
    """Latest of some releases.

    >>> newest(["0.5.9", "0.5.14", "0.5.6.post2"])
    '0.5.14'
    """
    return max(map(str, versions), key=release)


def release(version: str) -> tuple[int, ...]:
    """Numbers of a release, in whose order releases follow one another.

    >>> release("1.3.0rc20")
    (1, 3, 0, 20)
    """
    return tuple(int(number) for number in re.findall(r"\d+", version))
