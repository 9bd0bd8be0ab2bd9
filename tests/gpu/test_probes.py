"""Probes, the whole path and its plausibility on a GPU: what must hold on any of them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from roofline.bench import campaign
from roofline.bench.backend import ArrayPool, ProbePlace
from roofline.bench.calibrating import fit_records
from roofline.bench.engine import footprint, measure
from roofline.bench.probe import ProbePoint, find, points, probes
from roofline.bench.profile import profile, text, write
from roofline.bench.profile_file import load
from roofline.bench.stopping import Stop
from roofline.errors import MissingEnvironmentError

pytestmark = pytest.mark.gpu

ON_GPU = [entry.probe.name for entry in probes() if "cupy" in entry.probe.backends]
QUICK = Stop(budget_s=0.05)
LEAST = {"bf16": 0.4, "fp8": 0.4, "int8": 0.2}
"""Shares of the published rate that a large product reaches anywhere. Results of int8 are in
32 bits, by older kernels on Hopper; the conversion of the input is in the time too."""
BEYOND = 1.05
"""Times a published rate that no measurement may reach: clocks are what they are published for."""


@pytest.fixture(scope="module")
def where() -> Iterator[ProbePlace]:
    try:
        with campaign.place("cupy") as found:
            yield found
    except MissingEnvironmentError as error:
        pytest.skip(f"{error.told}: {error.hint}")


def nearest(name: str, **wanted: int) -> ProbePoint:
    """The cold point, else the warm one, whose axes are those wanted."""
    found = [
        point
        for point in points(find(name).probe)
        if all(point.at[axis] == value for axis, value in wanted.items())
    ]
    return max(found, key=lambda point: point.state == "cold")


def seconds(point: ProbePoint, where: ProbePlace) -> float:
    return measure(point, where.backend, ArrayPool(where.backend.xp), QUICK).median.value


@pytest.mark.parametrize("name", ON_GPU)
def test_a_probe_runs_at_its_smallest_and_takes_time(name: str, where: ProbePlace) -> None:
    probe = find(name).probe
    every = [point for point in points(probe) if not where.backend.refusal(point)]
    if not every:
        pytest.skip(where.backend.refusal(next(points(probe))))
    least = min(every, key=lambda p: footprint(p, where.backend.cache_bytes).total_bytes)
    found = measure(least, where.backend, ArrayPool(where.backend.xp), QUICK)
    assert 0.0 < found.median.value < 1.0
    assert found.clocks["sm_hz"] > 0


def test_no_copy_beats_the_published_bandwidth(where: ProbePlace) -> None:
    point = nearest("copy", size=2**30)
    rate = 2.0 * 2**30 / seconds(point, where)
    assert 0.5 < rate / where.published.machine.hbm_bytes_per_s < BEYOND


@pytest.mark.parametrize("arithmetic", ["bf16", "int8", "fp8"])
def test_no_product_beats_the_published_rate(arithmetic: str, where: ProbePlace) -> None:
    point = nearest(f"gemm-{arithmetic}", m=8192, n=8192, k=8192)
    if why := where.backend.refusal(point):
        pytest.skip(why)
    share = 2.0 * 8192**3 / seconds(point, where) / where.published.of(arithmetic).flops_per_s
    assert LEAST[arithmetic] < share < BEYOND


def test_a_longer_cache_takes_longer_to_read(where: ProbePlace) -> None:
    shape = {"count": 16, "new": 1, "heads": 32, "kv_heads": 8, "head_dim": 128}
    short, long = (
        seconds(nearest("paged-decode", context=context, **shape), where)
        for context in (2048, 32768)
    )
    assert 8.0 < long / short < 20.0


def test_a_short_calibration_ends_in_a_profile_that_is_read_back(
    where: ProbePlace, tmp_path: Path
) -> None:
    chosen = [find(name) for name in ("copy", "gemm-bf16", "paged-decode")]
    run = campaign.measure(where, chosen, 40.0, tmp_path / "run", lambda *_: None)
    assert run.seconds < 45.0
    fits, notes = fit_records(run.records, where.published)
    assert [note for note in notes if "ECC" not in note] == []  # of memory, as most have it
    made = profile(run.records, fits, where.published)
    write(made, tmp_path / "c.yaml")
    assert text(load(tmp_path / "c.yaml")) == text(made)
    for fitted in fits:
        assert fitted.datasheet is not None
        assert fitted.errors.median < fitted.datasheet.median
        assert np.isfinite(fitted.errors.p90)
