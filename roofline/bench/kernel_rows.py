"""Measured attention, experts and exchanges as columns of `roofline.cost.kernels`.

A group is what one fit may hold: one device, library, kernel and number formats. Its families are
the shapes that are left out together.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.held_out import Labels
from roofline.cost.kernels import decode, exchange, experts, latent, latent_module, prefill, routing
from roofline.cost.kernels.form import Form, Machine, machine, take
from roofline.cost.work import Array
from roofline.errors import LayoutError
from roofline.hardware.catalog import USUAL_BOX, default_node, gpu
from roofline.hardware.machine import Gpu

if TYPE_CHECKING:
    import pandas

WIDTHS: Final[Mapping[str, float]] = {"bfloat16": 2.0, "float16": 2.0, "fp8": 1.0}
"""Bytes per element of activations and caches."""
PROJECTED: Final[Mapping[str, str]] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "nvfp4": "fp4",
}
"""Arithmetic of the projections of a module by their format."""
WEIGHTS: Final[Mapping[str, float]] = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "w4a16_mxfp4": 0.53125,
    "nvfp4": 0.5625,
}
"""Bytes per weight; mxfp4 with a scale of 8 bits for each 32, nvfp4 for each 16."""
EXPONENTS: Final[Mapping[str, float]] = {
    "balanced": 0.0,
    "power_law_1.01": 1.01,
    "power_law_1.2": 1.2,
}
SINGLE: Final = "flash_attn"
"""Kernels that take a prefill of one token for a decode step."""
SIZES: Final = (8.0, 64.0)
"""Sequences from which a batch is medium, and large."""
FEW: Final = 4
"""Families that a fit needs at least; where shapes are fewer, how they are split counts too."""
ATTENTION: Final = ("batch", "seq_q", "seq_kv", "n_heads", "n_kv_heads", "head_dim", "window")
LATENT: Final = ("batch", "seq_q", "seq_kv", "n_heads")
SHAPE: Final = ("n_heads", "n_kv_heads", "head_dim", "window")
EXPERTS: Final = ("hidden", "inter", "experts", "topk")
KEY: Final = ("gpu", "backend", "version", "kernel", "dtype", "kv_dtype")
LEFT: Final = ("gpu", "backend", "version", "kernel", "dtype")
MODE: Final = ("gpu", "backend", "version", "mode", "op")

Name = dict[str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that one fit may hold.

    Attributes
    ----------
    name
        Device, library, version, kernel and formats.
    form, machine
        What they are fitted with.
    dims
        Columns of the form.
    measured
        Times. [s]
    families
        Label of each row: rows of a family are left out together.
    index
        Places of the rows in the file. [1]
    arithmetic
        Whose published rate the machine is given.
    """

    name: Name
    form: Form
    machine: Machine
    dims: dict[str, Array]
    measured: Array
    families: Labels
    index: Labels
    arithmetic: str

    def __len__(self) -> int:
        """Rows."""
        return len(self.measured)

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> "Group":
        """Some of the rows."""
        return replace(
            self,
            dims=take(self.dims, which),
            measured=self.measured[which],
            families=self.families[which],
            index=self.index[which],
        )


def prefill_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Prefill attention; TensorRT-LLM computes in fp8 where the cache is."""
    for name, rows in _parts(frame, KEY):
        some = rows[rows.seq_q > 1] if SINGLE in name["kernel"] else rows
        low = "fp8" in (name["dtype"], name["kv_dtype"])
        dims = prefill.prefill_dims(*_columns(some, ATTENTION), *_widths(some))
        yield _group(name, prefill.FORM, dims, some, SHAPE, low=low)


def decode_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Decode attention."""
    for name, rows in _parts(frame, KEY):
        columns = (*_columns(rows, ATTENTION), *_widths(rows))
        dims = decode.decode_dims(*columns, kernel=name["kernel"])
        yield _group(name, decode.FORM, dims, rows, SHAPE)


def latent_decode_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Decoding of multi-head latent attention."""
    for name, rows in _parts(frame, KEY):
        columns = (*_columns(rows, LATENT), *_widths(rows))
        dims = latent.latent_dims(*columns, generation=gpu(name["gpu"]).architecture)
        yield _group(name, latent.DECODE, dims, rows, ("n_heads",), low=name["kv_dtype"] == "fp8")


def latent_prefill_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Prefill of multi-head latent attention, which computes in 16 bits."""
    for name, rows in _parts(frame, KEY):
        dims = latent.expanded_dims(*_columns(rows, LATENT), *_widths(rows))
        yield _group(name, latent.PREFILL, dims, rows, ("n_heads",))


def module_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Multi-head latent attention with its projections; heads absorb the latent while decoding.

    vLLM absorbs short prefills too, where it names the kernel that decodes.
    """
    key = tuple(name for name in (*KEY, "op", "phase", "gemm_dtype") if name in frame)
    for name, rows in _parts(frame, key):
        absorbed = name["phase"] == "decode" or "MLA" in name["kernel"]
        wide = rows.replace({"dtype": {"fp8_block": "bfloat16"}})  # of the projections only
        columns = (*_columns(rows, LATENT), *_widths(wide))
        device = gpu(name["gpu"])
        narrow = PROJECTED[name["gemm_dtype"]]
        faster = device.rate(narrow) / device.rate("bf16") if narrow in device.flops_per_s else 1.0
        own = (
            _columns(rows, ("n_heads",))[0],
            _mapped(rows, "gemm_dtype", WEIGHTS),
            np.full(len(rows), faster),
        )
        if absorbed:
            inside = latent.latent_dims(*columns, generation=device.architecture)
            dims = latent_module.with_projections(inside, *own)
            yield _group(name, latent_module.ABSORBED, dims, rows, ("n_heads",))
        else:
            dims = latent_module.expanded_dims(*columns[:-1], weight_width=own[1], faster=own[2])
            yield _group(name, latent_module.EXPANDED, dims, rows, ("n_heads",))


def head_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Matrices of each head around latent decoding."""
    for name, rows in _parts(frame, (*LEFT, "op")):
        tokens, heads = _columns(rows, ("num_tokens", "n_heads"))
        low = name["dtype"] == "fp8"
        into = name["op"] == "mla_gen_pre"
        dims = {
            "tokens": tokens,
            "heads": heads,
            "inner": np.full_like(tokens, latent_module.PLAIN if into else latent_module.LATENT),
            "weight_width": np.full_like(tokens, WIDTHS[name["dtype"]]),
            "quantised": np.full_like(tokens, float(low)),
        }
        yield _group(name, latent_module.HEADS, dims, rows, ("n_heads",), low=low)


def expert_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Mixtures of experts, as the most loaded device sees them."""
    for name, rows in _parts(frame, LEFT):
        tokens, hidden, inter, active, every, tp, ep = _columns(
            rows, ("num_tokens", "hidden", "inter", "topk", "experts", "tp", "ep")
        )
        gated = "nongated" not in name["kernel"]
        weights = _mapped(rows, "dtype", WEIGHTS)
        dims = experts.expert_dims(
            tokens,
            hidden,
            inter / tp,
            active,
            np.ceil(every / ep),
            np.full_like(tokens, experts.GATED - (not gated)),
            weights,
            np.full_like(tokens, WIDTHS["bfloat16"]),
            **routing.columns(tokens, every, active, ep, _mapped(rows, "distribution", EXPONENTS)),
        )
        yield _group(name, experts.FORM, dims, rows, EXPERTS, low=name["dtype"].startswith("fp8"))


def exchange_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Dispatch and combination of tokens, inside one node or over the network of several.

    Raises
    ------
    LayoutError
        The catalog does not know what joins the devices.
    """
    for name, rows in _parts(frame, (*MODE, "node_num")):
        tokens, hidden, active, every, sms = _columns(
            rows, ("num_tokens", "hidden", "topk", "experts", "sms")
        )
        device = gpu(name["gpu"])
        nodes = float(name["node_num"])
        held, rate = _joined(device, nodes)
        # Chance that none of a token's experts, spread evenly, is on a given device.
        ranks = held * nodes
        met = ranks * (1.0 - _none(every, every / ranks, active))
        once = name["mode"] == "normal"
        dims = exchange.exchange_dims(
            tokens,
            hidden,
            met if once else active,
            every,
            sms,
            np.full_like(tokens, WIDTHS["fp8" if name["op"] == "dispatch" else "bfloat16"]),
            np.full_like(tokens, rate),
        )
        yield _group(
            {**name, "dtype": "bfloat16"}, exchange.FORM, dims, rows, ("hidden", "topk", "experts")
        )


def _joined(device: Gpu, nodes: float) -> tuple[float, float]:
    """Devices of a node, and the rate in one direction of what joins them and others. [B/s]"""
    link = next(iter(device.links.values()), None)
    network = default_node(device, USUAL_BOX + 1).network if nodes > 1 else None
    if link is None or (nodes > 1 and network is None):
        raise LayoutError(
            f"the catalog knows no wires of {device.name} that join {nodes:.0f} nodes",
            hint="add its links, or a node with a network",
        )
    return float(link.devices or USUAL_BOX), network.bytes_per_s if network else link.bytes_per_s


def _none(every: Array, held: Array, active: Array) -> Array:
    """Chance that k of E drawn without replacement miss a set of them."""
    from scipy.special import gammaln

    def choose(n: Array, k: Array) -> Array:
        found: Array = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0.0) + 1)
        return found

    missed: Array = np.exp(choose(every - held, active) - choose(every, active))
    return np.where(every - held >= active, missed, 0.0)


def _parts(
    frame: "pandas.DataFrame", key: tuple[str, ...]
) -> Iterator[tuple[Name, "pandas.DataFrame"]]:
    for values, rows in frame.groupby(list(key), observed=True):
        yield dict(zip(key, map(str, values), strict=True)), rows


def _columns(rows: "pandas.DataFrame", names: tuple[str, ...]) -> list[Array]:
    return [rows[name].to_numpy(np.float64) for name in names]


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
) -> Group:
    """A group in bf16, or in fp8 where the device has it."""
    device = gpu(name["gpu"])
    arithmetic = "fp8" if low and "fp8" in device.flops_per_s else "bf16"
    families = rows.groupby(list(family), observed=True).ngroup().to_numpy().astype(np.int64)
    if len(np.unique(families)) < FEW and "batch" in rows:
        sized = rows.assign(size=np.digitize(rows.batch, SIZES))
        more = [*family, "size"]
        families = sized.groupby(more, observed=True).ngroup().to_numpy().astype(np.int64)
    if len(np.unique(families)) < FEW and "ep" in rows:
        more = [*family, "tp", "ep"]
        families = rows.groupby(more, observed=True).ngroup().to_numpy().astype(np.int64)
    return Group(
        name,
        form,
        machine(device, arithmetic),
        dims,
        rows.time_s.to_numpy(np.float64),
        families,
        rows.index.to_numpy().astype(np.int64),
        arithmetic,
    )


READERS: Final[Mapping[str, Callable[["pandas.DataFrame"], Iterator[Group]]]] = {
    "attention_prefill": prefill_groups,
    "attention_decode": decode_groups,
    "mla_prefill": latent_prefill_groups,
    "mla_decode": latent_decode_groups,
    "mla_module": module_groups,
    "mla_bmm": head_groups,
    "moe": expert_groups,
    "deepep": exchange_groups,
}
"""By the file that the rows are in."""
