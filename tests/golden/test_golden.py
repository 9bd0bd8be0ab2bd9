"""Golden numbers: ours against lectures, books, papers and model cards, from the CSV itself."""

import ast
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from roofline.cost.textbook import bounds, intensity
from tests.golden.adapters import ADAPTERS, BESIDE
from tests.golden.formula import Statement, formula, statements
from tests.golden.pending import PENDING
from tests.golden.rows import (
    Adapter,
    Implied,
    Input,
    Printed,
    Quoted,
    Row,
    number,
    ours,
    rows,
)

POINTS: Final = 25
FAR: Final = 1e18
HERE: Final = Path(__file__).parent
DERIVABLE: Final = tuple(row for row in rows().values() if not row.measured)
REQUIRED_TOPICS: Final = {
    "activations",
    "arithmetic_intensity",
    "attention_flops",
    "collectives",
    "decode_latency",
    "disaggregation",
    "expert_parallel",
    "flash_attention",
    "flops_exact",
    "fragmentation",
    "gqa",
    "hardware",
    "kernel_time",
    "kv_cache",
    "llama2_13b_h100",
    "memory",
    "mfu_latency",
    "moe",
    "parallelism",
    "param_count",
    "pipeline",
    "prefill_latency",
    "quantization",
    "roofline",
    "scheduling",
    "speculative",
    "throughput",
    "training_flops",
}


def pending_ids() -> list[str]:
    return [
        row.id
        for topic, ids in PENDING.items()
        for row in rows().values()
        if row.topic == topic and not row.measured and (ids == "all" or row.id in ids)
    ]


def check_number(row: Row, adapter: Adapter) -> None:
    mine, theirs, tolerance = ours(adapter, row), row.expected, float(row.tolerance)
    assert abs(mine - theirs) <= tolerance * abs(theirs), (
        f"\n  row        {row.id}: {row.quantity} [{row.unit}]"
        f"\n  ours       {mine!r}\n  theirs     {theirs!r}"
        f"\n  difference {abs(mine / theirs - 1):.3g}, tolerance {tolerance:g}"
        f"\n  source     {row.source}"
    )


def check_formula(row: Row, adapter: Adapter, statement: Statement) -> None:
    letters = sorted(statement.formula.letters | adapter.letters)
    draw = random.Random(row.id)
    for _ in range(POINTS):
        point = {letter: 10 ** draw.uniform(0, 4) for letter in letters}
        mine, theirs = ours(adapter, row, point), statement.formula.at(point)
        assert mine == pytest.approx(theirs, rel=1e-12), (
            f"\n  row    {row.id}: {row.quantity} = {statement.formula.text}"
            f"\n  at     {point}\n  ours   {mine!r}\n  theirs {theirs!r}\n  source {row.source}"
        )
        if statement.limit:
            far = {k: v if k in statement.limit.letters else FAR for k, v in point.items()}
            assert ours(adapter, row, far) == pytest.approx(statement.limit.at(far), rel=1e-9)


def check(row: Row) -> None:
    entry = ADAPTERS[row.id]
    if not row.symbolic:
        assert isinstance(entry, Adapter)
        check_number(row, entry)
        return
    published = statements(row.usable)
    named = {"": entry} if isinstance(entry, Adapter) else entry
    assert named.keys() == published.keys()
    for label, adapter in named.items():
        check_formula(row, adapter, published[label])


@pytest.mark.parametrize("golden_id", [id_ for id_ in ADAPTERS if id_ in rows()])
def test_golden(golden_id: str) -> None:
    check(rows()[golden_id])


def test_every_row_is_checked_or_measured_or_pending_and_only_one_of_them() -> None:
    measured = [row.id for row in rows().values() if row.measured]
    places = [*ADAPTERS, *measured, *pending_ids()]
    assert sorted(places) == sorted(rows())


def test_topics_that_are_answered_have_no_pending_row() -> None:
    assert not REQUIRED_TOPICS & PENDING.keys()
    assert {row.topic for row in DERIVABLE} >= REQUIRED_TOPICS


def test_the_pending_list_names_only_rows_there_are() -> None:
    for topic, ids in PENDING.items():
        waiting = {row.id for row in DERIVABLE if row.topic == topic}
        assert waiting, f"no row of {topic} waits"
        assert ids == "all" or (len(set(ids)) == len(ids) and set(ids) <= waiting), topic


def test_the_pending_list_only_shrinks() -> None:
    assert pending_ids() == [], "every row that can be derived has its function"


def test_measured_rows_are_beside_ours_and_never_among_the_passed() -> None:
    assert all(rows()[id_].measured for id_ in BESIDE)
    assert not any(rows()[id_].measured for id_ in ADAPTERS if id_ in rows())


@pytest.mark.parametrize("path", sorted(HERE.glob("adapters*.py")), ids=lambda path: path.name)
def test_adapters_select_and_convert_but_never_compute(path: Path) -> None:
    assert arithmetic(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "code",
    [
        "X = Adapter(f, {'a': Quoted('b').value * 2})",
        "X = Adapter(lambda a: f(a), {})",
        "X = Adapter(prod, {'a': (1, 2)})",
        "X += 1",
        "X = -f(2)",
        "def f(a):\n    return a",
        "import math",
        "from numpy import add",
    ],
)
def test_arithmetic_in_an_adapter_is_noticed(code: str) -> None:
    assert arithmetic(code)


def arithmetic(code: str) -> list[str]:
    """Lines that are more than a table: operators, functions, and ways to smuggle them in."""
    forbidden = (
        ast.BinOp,
        ast.UnaryOp,
        ast.BoolOp,
        ast.Compare,
        ast.AugAssign,
        ast.Lambda,
        ast.FunctionDef,
        ast.ClassDef,
    )
    names = {"sum", "prod", "pow", "eval", "exec", "divmod", "round", "abs", "max", "min"}
    modules = {"math", "operator", "numpy", "functools", "statistics", "itertools"}
    found = []
    for node in ast.walk(ast.parse(code)):
        bad = isinstance(node, forbidden) or (isinstance(node, ast.Name) and node.id in names)
        if isinstance(node, ast.Import):
            bad = any(alias.name.split(".")[0] in modules for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            bad = (node.module or "").split(".")[0] in modules
        if bad:
            found.append(f"line {getattr(node, 'lineno', 0)}: {type(node).__name__}")
    return found


def test_the_asking_of_the_engine_has_no_arithmetic_either() -> None:
    tree = ast.parse((HERE / "engine.py").read_text(encoding="utf-8"))
    operators = (ast.BinOp, ast.UnaryOp, ast.AugAssign, ast.Lambda)
    assert not [node for node in ast.walk(tree) if isinstance(node, operators)]


def test_a_wrong_number_fails() -> None:
    row = rows()["sb-gpu-h100-int"]
    right = ADAPTERS[row.id]
    assert isinstance(right, Adapter)
    message = r"(?s)sb-gpu-h100-int.*ours.*theirs.*tolerance 0\.003.*scaling-book"
    with pytest.raises(AssertionError, match=message):
        check_number(row, Adapter(lambda **inputs: 1.01 * right.function(**inputs), right.inputs))


def test_a_row_without_tolerance_must_be_exact() -> None:
    row = rows()["sb-gpu-h100-alus"]
    assert float(row.tolerance) == 0
    with pytest.raises(AssertionError):
        check_number(row, Adapter(lambda: 16897, {}))


@pytest.mark.parametrize("source", [Printed("76%"), Implied(2.0, "bf17"), Quoted("no such key")])
def test_an_input_that_the_row_does_not_have_fails(source: Input) -> None:
    with pytest.raises((AssertionError, KeyError)):
        ours(Adapter(bounds.ridge, {"flops_per_s": source}), rows()["fa3-fp16"])


def test_an_input_cannot_be_borrowed_from_another_source() -> None:
    borrowed = Adapter(intensity.vector_add_intensity, {"width": Quoted("bytes", row="nv-7b-kv")})
    with pytest.raises(AssertionError, match="another source"):
        ours(borrowed, rows()["sb-gpu-add-int"])


def test_a_wrong_formula_fails() -> None:
    row = rows()["cs336-l10-attn-int"]
    entry = ADAPTERS[row.id]
    assert isinstance(entry, Adapter)
    with pytest.raises(AssertionError, match="theirs"):
        check_formula(row, entry, Statement(formula("S*T/(S+T+1)")))
    with pytest.raises(AssertionError):
        check_formula(row, entry, Statement(formula("S*T/(S+T)"), limit=formula("2T")))


@pytest.mark.parametrize(
    ("text", "point", "value"),
    [
        ("4*B*S*D + 4", {"B": 1, "S": 2, "D": 3}, 28),
        ("T/(8D)", {"T": 16, "D": 2}, 1),
        ("sb(10+24/t)", {"s": 2, "b": 3, "t": 4}, 96),
        ("(s/t)(1+2a)", {"s": 6, "t": 3, "a": 2}, 10),
        ("B*(N-1)/(W*N^2)", {"B": 8, "N": 2, "W": 1}, 2),
    ],
)
def test_formulas_are_read_as_they_are_written(
    text: str, point: Mapping[str, float], value: float
) -> None:
    assert formula(text).at(point) == value


@pytest.mark.parametrize("text", ["__import__('os')", "a.b", "a[0]", "a if b else c", "f;", "a=1"])
def test_what_is_not_a_formula_is_refused(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        formula(text)


def test_every_symbolic_row_can_be_read() -> None:
    for row in rows().values():
        if row.symbolic:
            assert all(statement.formula.letters for statement in statements(row.usable).values())


def test_units_of_rows_are_converted_once() -> None:
    assert number("12 GiB") == 12 * 2**30
    assert number("75%") == 0.75
    assert rows()["sb-inf-13b-mha-B1-ms"].expected == pytest.approx(4.98e-3)
    assert rows()["sb-gpu-70b-days"].expected == 40 * 86400
