"""Work of an operation on a device: arithmetic, memory traffic and wire traffic.

Fields broadcast against the scenario axis, so one expression prices one scenario or a million. One
multiply-add is 2 FLOP; every operand crosses device memory once. Operations that treat tokens one
by one are at the end: matrices, norms, activations, lookups.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.part import Array as Array
from roofline.part import Number as Number
from roofline.part import Part
from roofline.records import replace

Scalar = TypeVar("Scalar", bound=np.generic)
Kind: TypeAlias = Literal[
    "gemm",
    "moe",
    "prefill-attention",
    "decode-attention",
    "latent-attention",
    "index",
    "scan",
    "pointwise",
    "adapter",
    "lookup",
    "collective",
    "host",
    "engine",
]


CONVERSION: Final = "quantise"
CONVERSION_OF_EXPERTS: Final = "quantise-experts"
"""Kernels that convert the inputs of a product, and those of the products of experts."""
FIRST, SECOND, AROUND = "first", "second", "around"
"""Kernels of a mixture of experts: both matrices, and the sum over experts."""
INTO_LATENT, OUT_OF_LATENT = "q-absorb", "v-absorb"
"""Kernels of a matrix for each head, into the latent and out of it."""
ACTIVATED: Final = "activated"
SHARED: Final = "shared"
"""Inputs of a product, in its ``formats``: of an activation, or of shared experts."""
RESIDUAL_NORM, NORM, ROTARY, STORE, ACTIVATION, LOOKUP = (
    "residual-norm",
    "norm",
    "rotary",
    "kv-store",
    "activation",
    "embedding",
)
"""Kernels of passes over activations: a norm that adds the residual first, so that each element is
read and written twice; a norm alone; rotation; keys and values; activation function; embedding."""
DISPATCH, COMBINE = "dispatch", "combine"
"""Kernels that send tokens to the devices of their experts, and bring them back."""


def distinct(values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Values in order, each once; ``np.unique`` imports masked arrays, which take 10 ms.

    >>> distinct(np.array([3.0, 1.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    ordered = np.sort(values)
    found: NDArray[Scalar] = ordered[np.append(True, ordered[1:] > ordered[:-1])[: len(ordered)]]
    return found


def union(*values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Values that any of the arrays has, in order, each once."""
    return distinct(np.concatenate(values))


def picked(
    values: NDArray[Scalar], rows: NDArray[np.intp], shape: tuple[int, ...]
) -> NDArray[Scalar]:
    """Values of some points of a grid of a shape, by number; they may lack some of its axes.

    >>> picked(np.array([[1.0], [2.0]]), np.array([0, 3, 5]), (2, 3)).tolist()
    [1.0, 2.0, 2.0]
    """
    if values.shape == shape:
        return values.ravel()[rows]
    return np.broadcast_to(values, shape)[np.unravel_index(rows, shape)]


def plus(a: Number, b: Number) -> Number:
    """``a + b`` without a pass over an array where one side is the scalar zero."""
    if isinstance(a, float) and a == 0.0:
        return b
    if isinstance(b, float) and b == 0.0:
        return a
    return a + b


def anywhere(asked: Any) -> bool:
    """Whether a number is not 0, or a condition holds, in any row: ``np.any``, quick for one row.

    >>> anywhere(0.0), anywhere(np.array([0.0, 2.0]) > 1)
    (False, True)
    """
    return bool(asked.any() if isinstance(asked, np.ndarray) else asked)


def chosen(place: NDArray[np.intp], values: Sequence[Number]) -> Number:
    """In each row the value at its place: `numpy.choose` of few, without a pass over equal numbers.

    Source: definition.

    >>> chosen(np.array([1, 0]), [np.array([1.0, 2.0]), 5.0]).tolist()
    [5.0, 2.0]
    """
    found, *others = values
    for number, value in enumerate(others, 1):
        if isinstance(value, np.ndarray) or isinstance(found, np.ndarray) or value != found:
            found = np.where(place == number, value, found)[()]
    return found


def times(a: Number, b: Number) -> Number:
    """``a * b`` without a pass over an array where one side is the scalar one."""
    if isinstance(a, float) and a == 1.0:
        return b
    if isinstance(b, float) and b == 1.0:
        return a
    return a * b


def root_sum_square(a: Array, b: Number) -> Array:
    """√(a² + b²), in a twentieth of the time of `numpy.hypot`, which calls a function for each row.

    >>> root_sum_square(np.array([3.0, 0.0]), 4.0).tolist()
    [5.0, 4.0]
    """
    root: Array = np.sqrt(a * a + b * b)
    return root


def scaled(a: Number, b: Number) -> Number:
    """``a * b``; the scalar zero stays one and costs no pass over an array."""
    return a if isinstance(a, float) and a == 0.0 else a * b


COUNTS: Final = (
    "flops",
    "weight_bytes",
    "activation_bytes",
    "kv_bytes",
    "wire_bytes",
    "messages",
    "network_bytes",
    "network_messages",
    "host_bytes",
)
"""Counts of `Work`, in the order of its fields."""
counts_of: Final[Callable[["Work"], tuple[Number, ...]]] = attrgetter(*COUNTS)


class Formula(Struct, frozen=True):
    """Counts in symbols: the text of the function that it stands beside, in its names.

    A part in brackets is left out where it changes nothing: a term of 0, a factor of 1, a symbol
    that is not there.
    """

    flops: str = ""
    weight_bytes: str = ""
    activation_bytes: str = ""
    kv_bytes: str = ""
    wire_bytes: str = ""
    messages: str = ""
    network_bytes: str = ""
    network_messages: str = ""
    host_bytes: str = ""
    seconds: str = ""
    """Time on the wires between devices or to the host."""
    meanings: tuple[tuple[str, str], ...] = ()
    """Symbols that are not plain, and what they are."""


NOTHING: Final = Formula()
"""No formula: what is told of a symbol of another one."""


Symbols: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any]]


class EvaluatedFormula(NamedTuple):
    """A formula with the arguments that it was evaluated with."""

    formula: Formula
    symbols: Symbols
    """Names of the function, or what gives them where somebody asks."""
    times: Number = 1.0
    """Factor on all counts. [1]"""
    parted: tuple[str, ...] = ()
    """Counts that are divided by the devices which share a context, ``CP``."""

    def known(self) -> Mapping[str, Any]:
        """Values of the symbols, by symbol."""
        return self.symbols() if callable(self.symbols) else self.symbols

    def text(self, count: str) -> str:
        """A count in symbols."""
        text: str = getattr(self.formula, count)
        bare = f"({text})" if " + " in text or " − " in text else text
        if not text or count == "seconds":
            return text
        if count in self.parted:
            text = bare = f"{bare} / CP"
        if isinstance(self.times, np.ndarray):
            return f"used · {bare}"
        return text if self.times == 1.0 else f"{self.times:g} · {bare}"


def by(formula: Formula, symbols: Symbols) -> tuple[tuple[Any, ...]]:
    """Origin of a `Work` by one formula: fields of `EvaluatedFormula`, kept small."""
    return ((formula, symbols, 1.0, ()),)


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic and compulsory traffic of one operation on one device.

    Norms, softmax and activation functions do a few vector FLOP per element beside the matrix
    arithmetic; they are left out of ``flops`` and present in the bytes.

    Examples:
        >>> both = Work(flops=2.0) + 3 * Work(flops=1.0, kv_bytes=4.0)
        >>> both.flops, both.hbm_bytes
        (5.0, 12.0)
    """

    flops: Number = 0.0
    """Multiplies and adds of matrix arithmetic, each counted once. [FLOP]"""
    weight_bytes: Number = 0.0
    activation_bytes: Number = 0.0
    kv_bytes: Number = 0.0
    """Traffic to device memory, reads and writes together, by what is moved. [B]"""
    wire_bytes: Number = 0.0
    """Sent by the device to others of its node. [B]"""
    messages: Number = 0.0
    """Rounds of messages that must follow one another there. [1]"""
    network_bytes: Number = 0.0
    network_messages: Number = 0.0
    """The same out of the node. [B] [1]"""
    host_bytes: Number = 0.0
    """Read from and written to the host's memory or storage. [B]"""
    made: Any = field(default=(), repr=False, compare=False)
    """Fields of `formulas`."""

    __array_ufunc__: ClassVar[None] = None  # `array * work` defers to Work.__rmul__

    def __add__(self, other: "Work") -> "Work":
        """Do one, then the other."""
        sums: list[Any] = [*map(plus, counts_of(self), counts_of(other)), self.made + other.made]
        return Work(*sums)

    def __mul__(self, number: Number) -> "Work":
        """Do it that many times."""
        made = tuple((*each[:2], times(each[2], number), each[3]) for each in self.made)
        fields: list[Any] = [*(scaled(count, number) for count in counts_of(self)), made]
        return Work(*fields)

    __rmul__ = __mul__

    @property
    def formulas(self) -> tuple[EvaluatedFormula, ...]:
        """Formulas whose sum it is; only whoever explains it asks."""
        return tuple(EvaluatedFormula(*each) for each in self.made)

    def telling(self, **symbols: Number) -> "Work":
        """The same with other values of symbols of its first formula."""
        first, *others = self.formulas
        return replace(self, made=(first._replace(symbols={**first.known(), **symbols}), *others))

    def parted(self, devices: Number, *counts: str) -> "Work":
        """One device's part, some of the counts divided by the devices that share a context."""
        less = {name: getattr(self, name) / devices for name in counts}
        first, *others = self.telling(CP=devices).formulas
        return replace(self, **less, made=(first._replace(parted=counts), *others))

    def says(self, count: str) -> str:
        """A count, or the time on wires, in symbols; empty where no function wrote it down."""
        return " + ".join(filter(None, (made.text(count) for made in self.formulas)))

    def symbols(self, weights: Array | None = None) -> dict[str, float]:
        """Numbers that the symbols stand for.

        Of what is not used in every row these are means over the rows in which it is, and ``used``
        is their share: a formula that is linear in what varies then gives the mean.

        Args:
            weights: Of the rows of the scenario axis; None where there is one row. [1]
        """
        out: dict[str, float] = {}
        for made in self.formulas:
            rows, used = weights, made.times
            if weights is not None and isinstance(used, np.ndarray):
                share = float(weights @ np.broadcast_to(used, weights.shape))
                rows = weights * used / share if share else weights
                out["used"] = share
            for name, value in made.known().items():
                if isinstance(value, np.ndarray) and value.ndim:
                    assert rows is not None, "rows have weights"
                    out[name] = float(np.broadcast_to(value, rows.shape) @ rows)
                elif isinstance(value, (int, float, np.generic)):
                    out[name] = float(value)
        return out

    @property
    def hbm_bytes(self) -> Number:
        """All traffic to device memory. [B]"""
        return plus(plus(self.activation_bytes, self.kv_bytes), self.weight_bytes)

    @property
    def intensity(self) -> Number:
        """Arithmetic intensity. [FLOP/B]"""
        return self.flops / self.hbm_bytes


class Op(Struct, frozen=True):
    """One operator of a step, with what a rate depends on."""

    name: str
    """Role in the network: ``"gate-up"``."""
    kind: Kind
    """Kind of kernels that do it."""
    work: Work
    """Work of one execution on one device."""
    repeat: int = 1
    """Executions in a step, usually one per layer. [1]"""
    arithmetic: str = ""
    """Type of the matrix arithmetic, a key of `Gpu.flops_per_s`; empty where there is none."""
    dims: Mapping[str, Number] = {}
    """Shape that a calibrated rate is looked up by: m, n, k; batch, contexts, heads."""
    formats: Mapping[str, str] = {}
    """Number formats by role: weights, activations, kv."""
    wire_s: Number = 0.0
    """Time of the wires that it uses, of one execution: what a collective takes between devices,
    or what is loaded from the host. [s]"""
    algorithm: str = ""
    """Algorithm of a collective: ``"ring"``."""
    kernel: str = ""
    """Kernel within its kind, where kernels differ: the operation of a collective, a part of a
    mixture of experts, a conversion of inputs; empty where they do not."""
    by_group: bool = False
    """True for an operator on the caches or states of one group of sequences, False for one on all
    new tokens of a step at once."""
    encodes: bool = False
    """True for one on pictures or sound of a prompt, which the decoder's do not depend on."""

    @property
    def total(self) -> Work:
        """Work of all executions."""
        return self.work * float(self.repeat)

    @property
    def numbers(self) -> list[Number]:
        """All numbers: shape, work and wires."""
        return [*self.dims.values(), *counts_of(self.work), self.wire_s]

    def changed(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> "Op":
        """The operator with each of its arrays changed."""

        def of(value: Any) -> Any:
            return change(value) if isinstance(value, np.ndarray) and value.ndim else value

        return replace(
            self,
            work=Work(*map(of, counts_of(self.work))),
            dims={name: of(value) for name, value in self.dims.items()},
            wire_s=of(self.wire_s),
        )

    def rows(self, which: NDArray[np.intp]) -> "Op":
        """Some rows of an operator whose arrays are lines."""
        return self.changed(lambda value: value if value.size == 1 else value[which])


def total(parts: Iterable[Part]) -> Number:
    """Sum of parts, in their order.

    Source: definition.

    Args:
        parts: Of one unit.
    """
    return sum((part.value for part in parts), 0.0)


def gemm(m: Number, n: Number, k: Number, *, weight_width: float, width: float) -> Work:
    """Linear layer ``Y[m, n] = X[m, k] · W[k, n]``.

    Source: Stanford CS336 (2025) lecture 10, intensity of a matrix product.

    Args:
        m: Tokens. [token]
        n, k: Output and input width. [1]
        weight_width: Bytes per weight, scales and zero points included. [B]
        width: Bytes per activation. [B]

    Examples:
        A square product of side n has intensity n/3 at two bytes an element:

        >>> gemm(3072, 3072, 3072, weight_width=2, width=2).intensity
        1024.0
    """
    return Work(
        flops=(2.0 * n * k) * m,
        weight_bytes=n * k * weight_width,
        activation_bytes=((n + k) * width) * m,
        made=by(GEMM, locals()),
    )


GEMM: Final = Formula(
    flops="2 · m · n · k",
    weight_bytes="n · k · weight_width",
    activation_bytes="m · (n + k) · width",
)


def pointwise(
    m: Number, *, reads: Number, writes: Number, width: float, parameters: Number = 0.0
) -> Work:
    """One pass over the activations: norm, residual, rotary embedding, activation function.

    A few vector FLOP per element are left out. Source: every operand crosses memory once.

    Args:
        m: Tokens. [token]
        reads, writes: Elements per token that are read and written. [1]
        width: Bytes per element, parameters included. [B]
        parameters: Weights of the norm. [parameter]

    Examples:
        SiLU(gate)·up on a width of 4 reads 8 elements and writes 4, of 2 bytes:

        >>> pointwise(1.0, reads=8, writes=4, width=2).hbm_bytes
        24.0
    """
    moved = ((reads + writes) * width) * m
    return Work(
        weight_bytes=parameters * width, activation_bytes=moved, made=by(POINTWISE, locals())
    )


POINTWISE: Final = Formula(
    weight_bytes="parameters · width", activation_bytes="m · (reads + writes) · width"
)


def lookup(
    m: Number, d: float, *, weight_width: float, width: float, positions: float = 0.0
) -> Work:
    """Embedding: read a row for each token, write it.

    The matrix itself is not read. Source: definition of an embedding lookup; published closed
    forms that read the whole matrix are in `roofline.cost.textbook`.

    Args:
        m: Tokens. [token]
        d: Width of a row. [1]
        weight_width, width: Bytes per table element and per activation. [B]
        positions: Width of the row of a learned position embedding that is added; 0 without one.
            [1]

    Examples:
        >>> lookup(10, 4096, weight_width=2, width=2).hbm_bytes == 10 * 4096 * 4
        True
    """
    return Work(
        weight_bytes=((d + positions) * weight_width) * m,
        activation_bytes=(d * width) * m,
        made=by(ROW_LOOKUP, locals()),
    )


ROW_LOOKUP: Final = Formula(
    weight_bytes="m · (d[ + positions]) · weight_width", activation_bytes="m · d · width"
)
