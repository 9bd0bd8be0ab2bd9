"""Probes as files: those shipped, a new one, and every way to break one."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from roofline.bench.backend import ArrayPool
from roofline.bench.probe import ProbePoint, find, load, points, probes
from roofline.content import shipped
from roofline.cost.kernels.processor import OF_KIND
from roofline.errors import DocumentError, UnknownNameError
from tests.bench.probes import probe

Floats = NDArray[np.floating[Any]]

GOOD = '''
"""Doubles."""

from roofline.bench.probe import Probe
from roofline.cost.work import Work


def arguments(make, at):
    return {"x": make.normal(at["n"]), "out": make.empty(at["n"])}


def launch(xp, x, out):
    xp.add(x, x, out=out)


def work(at):
    return Work(activation_bytes=8.0 * at["n"])


PROBE = Probe(
    name="double",
    version=1,
    kind="pointwise",
    axes={"n": (16, 64)},
    arguments=arguments,
    launch=launch,
    work=work,
)
'''


def written(folder: Path, text: str) -> Path:
    path = folder / "double.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_new_probe_is_one_file(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    (found,) = probes(tmp_path)
    assert [point.name for point in points(found.probe)] == ["double n=16 warm", "double n=64 warm"]
    assert len(found.code) == 16


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("def launch(xp, x, out):", "def launch(xp, x, out)", 12, "it is not Python"),
        ('PROBE = Probe(\n    name="double",', "PROBE = Probe(", 20, "TypeError"),
        ("from roofline.cost.work import Work", "import nowhere_at_all", 5, "ModuleNotFoundError"),
        ("PROBE = Probe(", "OTHER = Probe(", 1, "it declares no probe"),
        ('name="double"', 'name="triple"', 20, "the probe is called 'triple'"),
        ('kind="pointwise"', 'kind="poinwise"', 20, "there is no kind 'poinwise'"),
        ("axes={", 'states=("cold",), axes={', 20, "streams nothing"),
        ("(16, 64)", "()", 20, "an axis has no values"),
        ("    launch=launch,\n", "", 20, "it launches nothing"),
        ("launch=launch", "kernels=launch", 20, "NumPy has nothing to launch"),
        ('8.0 * at["n"]', '8.0 * at["m"]', 17, "KeyError: 'm'"),
        ("return Work(activation_bytes=8.0 *", "return (8.0 *", 20, "not a Work"),
    ],
)
def test_a_broken_probe_gives_one_located_error(
    tmp_path: Path, old: str, new: str, line: int, said: str
) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(DocumentError) as caught:
        load(path)
    assert caught.value.where == f"{path}:{line}:1"
    assert said in caught.value.message
    assert "\n" not in caught.value.told
    assert caught.value.hint


def test_the_code_of_a_probe_changes_with_its_file(tmp_path: Path) -> None:
    first = load(written(tmp_path, GOOD)).code
    assert load(written(tmp_path, GOOD + "\n")).code != first


def test_an_unknown_probe_names_those_there_are() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find("../secret")
    assert "gemm" in caught.value.hint


def test_a_file_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        load(tmp_path / "none.py")


SHIPPED = [entry.probe for entry in probes()]
ON_NUMPY = [entry for entry in SHIPPED if "numpy" in entry.backends]


@pytest.mark.parametrize("name", [entry.name for entry in ON_NUMPY])
def test_a_shipped_probe_does_what_its_docstring_says(name: str) -> None:
    """Every probe runs, on arguments that it does not change, and has a kind that is fitted."""
    found = find(name).probe
    point = min(points(found), key=lambda p: float(p.probe.work(p.at).hbm_bytes))
    pool = ArrayPool(np)
    pool.reserve({"fp32": 1 << 22}, 1 << 24)
    arguments = found.arguments(pool, point.at)
    found.launch(np, **arguments)
    for value in arguments.values():
        assert not isinstance(value, np.ndarray) or np.isfinite(value).all()
    assert set(found.streamed) <= set(arguments)
    assert found.kind in OF_KIND
    assert float(found.work(point.at).hbm_bytes) > 0


def run(name: str, **at: int) -> dict[str, np.ndarray]:
    pool = ArrayPool(np)
    pool.reserve({"fp32": 1 << 20}, 1 << 22)
    found = find(name).probe
    arguments = dict(found.arguments(pool, at))
    found.launch(np, **arguments)
    return arguments


def test_the_kernels_compute_what_they_are_called() -> None:
    """Against plain float64 formulas, so that what is timed is the real thing."""
    a = run("gemm", m=3, n=8, k=5)
    np.testing.assert_allclose(a["out"], a["x"] @ a["weight"], rtol=1e-5)
    a = run("rmsnorm", m=3, width=8)
    x = a["x"].astype(float)
    want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * a["gain"]
    np.testing.assert_allclose(a["out"], want, rtol=1e-5)
    a = run("softmax", m=3, width=8)
    e = np.exp(a["x"].astype(float))
    np.testing.assert_allclose(a["out"], e / e.sum(-1, keepdims=True), rtol=1e-5)
    a = run("silu-mul", m=3, width=8)
    g = a["gate"].astype(float)
    np.testing.assert_allclose(a["out"], g / (1 + np.exp(-g)) * a["up"], rtol=1e-5)
    a = run("rope", m=3, heads=2, head_dim=8)
    z = (a["x"][..., :4] + 1j * a["x"][..., 4:]) * (a["cos"] + 1j * a["sin"])
    np.testing.assert_allclose(a["out"], np.concatenate([z.real, z.imag], -1), rtol=1e-4)
    a = run("store", m=3, heads=2, head_dim=8)
    np.testing.assert_array_equal(a["cache"], a["x"].transpose(1, 0, 2))


def attention(q: Floats, keys: Floats, values: Floats, mask: float | Floats) -> Floats:
    """One head in float64."""
    scores = q.astype(float) @ keys.astype(float).T / np.sqrt(q.shape[-1]) + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    found: Floats = e / e.sum(-1, keepdims=True) @ values
    return found


def test_attention_is_attention_head_by_head() -> None:
    a = run("decode-attention", count=2, heads=6, kv_heads=2, head_dim=8, context=11)
    for i, h, g in np.ndindex(2, 2, 3):
        want = attention(a["q"][i, h, g], a["keys"][i, h], a["values"][i, h], 0.0)
        np.testing.assert_allclose(a["out"][i, h, g], want, rtol=1e-4, atol=1e-6)
    a = run("prefill-attention", count=2, new=5, context=11, heads=6, kv_heads=2, head_dim=8)
    for i, h, g in np.ndindex(2, 2, 3):
        want = attention(a["q"][i, :, h, g], a["keys"][i, h], a["values"][i, h], a["mask"])
        np.testing.assert_allclose(a["out"][i, :, h, g], want, rtol=1e-4, atol=1e-6)


def test_probes_load_where_there_is_no_package(tmp_path: Path) -> None:
    """From a plain interpreter elsewhere, as after an installation."""
    code = "from roofline.bench.probe import probes; print(len(probes()))"
    root = shipped("microbench").parent
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(out.stdout) == len(SHIPPED)


def test_regimes_tell_cold_from_warm() -> None:
    found = probe()
    assert {point.regime for point in points(found)} == {
        *("small warm", "small cold", "large warm", "large cold")
    }
    assert ProbePoint(found, {"size": 64}, "cold").name == "toy size=64 cold"
