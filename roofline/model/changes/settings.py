"""Changes by name, ``gqa=8`` or ``weights=int4,batch=64``, to a network and how it is deployed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from roofline.errors import InputError, UnknownNameError, did_you_mean
from roofline.hardware import catalog as hardware
from roofline.hardware.machine import Gpu
from roofline.model import catalog, mixes
from roofline.model.architecture import Architecture
from roofline.model.changes import NETWORK, Cost, canonical, changed
from roofline.model.changes.values import whole
from roofline.model.precision import named
from roofline.records import replace
from roofline.units import show

__all__ = ["CHANGES", "SettingChange", "Setup", "apply", "explained", "parse", "setup_of"]


class Setup(Struct, frozen=True):
    """Network, machine and formats that changes apply to. Made by `setup_of`."""

    network: Architecture
    gpu: Gpu
    """Network in the format it is loaded in, and the machine that it runs on."""
    weights: str = ""
    """Format that was asked for; empty for the checkpoint's."""
    kv: str = "auto"
    """Format of the cache, or ``"auto"``."""
    tp: int = 1
    batch: int = 16
    """Devices that share every layer; sequences together. [1]"""

    @property
    def kv_format(self) -> str:
        """Format of the cache, or ``"auto"`` for that of the activations."""
        return self.network.kv_format or "auto" if self.kv == "auto" else self.kv


def setup_of(
    network: Architecture,
    gpu: Gpu,
    *,
    weights: str = "",
    kv: str = "auto",
    tp: int = 1,
    batch: int = 16,
) -> Setup:
    """Network as an engine loads it: in a format that was asked for, fp32 in 16 bits.

    Args:
        network, gpu: The network, and the machine that it runs on.
        weights, kv: Formats asked for; empty and ``"auto"`` for those of the checkpoint.
        tp, batch: Devices that share every layer; sequences together. [1]
    """
    return Setup(catalog.loaded(network, weights), gpu, weights, kv, tp, batch)


class SettingChange(Struct, frozen=True):
    """One kind of change."""

    apply: Callable[[Setup, str], Setup]
    """The setup with the value, as text, put into effect."""
    reason: Callable[[Setup, Setup, str], str]
    """Why figures move, of the setup before and after."""
    example: str
    """Value to show in help; empty for a change that takes none."""
    training: Cost = ""
    """Way to make such a network: none, ``"retrain"``, ``"distil"`` from the base, ``"zeros"`` or
    ``"quantise"``."""
    textbook: bool = True
    """True if published closed forms see it."""


def apply(base: Setup, changes: Sequence[tuple[str, str]]) -> Setup:
    """Put changes into effect, in the order of `CHANGES` whatever order they come in.

    Args:
        base: What they are applied to.
        changes: Names and values, as `parse` gives them.

    Raises:
        RooflineError: A value has no meaning for this network, or a name in it is not known.

    Examples:
        >>> from roofline.hardware.catalog import gpu
        >>> base = setup_of(catalog.architecture("llama-2-13b"), gpu("h100-sxm"))
        >>> apply(base, parse("gqa=8,batch=64")).batch
        64
    """
    return explained(base, changes)[0]


def explained(base: Setup, changes: Sequence[tuple[str, str]]) -> tuple[Setup, tuple[str, ...]]:
    """Setup of `apply`, and the effect of each change in words; of one topic, the last."""
    order, setup = list(CHANGES), base
    said: dict[object, str] = {}
    for name, value in sorted(changes, key=lambda change: order.index(change[0])):
        before, setup = setup, CHANGES[name].apply(setup, value)
        topic = NETWORK[name].reason if name in NETWORK else name
        said[topic] = CHANGES[name].reason(before, setup, value)
    return setup, tuple(said.values())


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """Changes of one variant: names and values.

    Raises:
        InputError: Nothing is there, or a change is there twice.
        UnknownNameError: There is no such change.

    Examples:
        >>> parse("gqa=8, global-every=6, mqa")
        (('gqa', '8'), ('global_every', '6'), ('mqa', ''))
    """
    out: dict[str, str] = {}
    for piece in text.split(","):
        written, equals, value = (part.strip() for part in piece.partition("="))
        name = canonical(written)
        if name not in CHANGES:
            raise _unknown(written)
        example = CHANGES[name].example
        if bool(equals and value) != bool(example):
            wanted = f"{name}={example}" if example else f"{name} alone"
            said = "needs a value" if example else "takes no value"
            raise InputError(f"{name} {said}", hint=f"write {wanted}")
        if name in out:
            raise InputError(f"{name} is given twice", hint="repeat `changes` for another variant")
        out[name] = value
    return tuple(out.items())


def _unknown(written: str) -> InputError:
    every = ", ".join(
        f"{name}={change.example}" if change.example else name for name, change in CHANGES.items()
    )
    if not written:
        return InputError("an empty change", hint=f"changes: {every}")
    shown = written if len(written) <= 40 else written[:37] + "..."
    lead = did_you_mean(written.lower(), CHANGES)
    return UnknownNameError(f"no change called {shown!r}", hint=f"{lead}changes: {every}")


def _of_network(name: str) -> SettingChange:
    """A change of the network alone, as one of the setup."""
    change = NETWORK[name]

    def effect(setup: Setup, value: str) -> Setup:
        told = f"`changes` {name}={value}" if value else f"`changes` {name}"
        return replace(setup, network=changed(setup.network, name, value, told))

    def reason(before: Setup, after: Setup, value: str) -> str:
        return change.reason(before.network, after.network, value)

    return SettingChange(effect, reason, change.example, change.training, change.textbook)


def _student(setup: Setup, value: str) -> Setup:
    loaded = setup_of(catalog.architecture(value), setup.gpu, weights=setup.weights)
    return replace(setup, network=loaded.network)


def _student_reason(before: Setup, setup: Setup, _: str) -> str:
    layers = f"{len(setup.network.layers)} layers instead of {len(before.network.layers)}"
    return f"another network, {setup.network.name}, of {layers}"


def _gpu_reason(before: Setup, setup: Setup, _: str) -> str:
    old, new = before.gpu, setup.gpu
    rate = next((name for name in ("bf16", "fp16") if {name} <= {*old.flops_per_s}), "fp32")
    out = _instead(*(show(gpu.hbm_bytes_per_s, "B/s") for gpu in (new, old)))
    if rate in new.flops_per_s and rate in old.flops_per_s:
        out += f" and {_instead(*(show(gpu.rate(rate), 'FLOP/s') for gpu in (new, old)))} of {rate}"
    return f"{new.title} has {out}"


def _instead(new: str, old: str) -> str:
    return f"the same {new}" if new == old else f"{new} instead of {old}"


def _weights(setup: Setup, value: str) -> Setup:
    loaded = setup_of(setup.network, setup.gpu, weights=value)
    return replace(setup, network=loaded.network, weights=value)


def _weights_reason(_: Setup, setup: Setup, value: str) -> str:
    if mixes.spelled(value) in mixes.MIXES:
        return f"weights as llama.cpp mixes formats for {mixes.spelled(value)}"
    stored = named(value)
    return f"{stored.name} weights, {stored.expression} bits each"


def _kv_reason(_: Setup, setup: Setup, value: str) -> str:
    if setup.kv == "auto":
        return "a cache in the format of the activations"
    return f"cache in {value}, {named(value).expression} bits each"


def _tp_reason(before: Setup, setup: Setup, _: str) -> str:
    devices = f"{setup.tp} device{'s' * (setup.tp > 1)}"
    return f"each layer is shared by {devices} instead of {before.tp}"


CHANGES: Final[Mapping[str, SettingChange]] = {
    "student": SettingChange(_student, _student_reason, "llama-2-7b", "distil"),
    "gpu": SettingChange(
        lambda setup, value: replace(setup, gpu=hardware.gpu(value)), _gpu_reason, "a100-sxm"
    ),
    **{name: _of_network(name) for name in NETWORK if name != "sparsity"},
    "weights": SettingChange(_weights, _weights_reason, "int4-awq", "quantise"),
    "sparsity": _of_network("sparsity"),
    "kv": SettingChange(
        lambda setup, value: replace(setup, kv=value if value == "auto" else named(value).name),
        _kv_reason,
        "fp8",
    ),
    "batch": SettingChange(
        lambda setup, value: replace(setup, batch=whole(value, "batch")),
        lambda old, new, _: f"{new.batch:,} sequences together instead of {old.batch:,}",
        "64",
    ),
    "tp": SettingChange(
        lambda setup, value: replace(setup, tp=whole(value, "tp")), _tp_reason, "2"
    ),
}
"""Changes by name, in the order in which several of them take effect."""
