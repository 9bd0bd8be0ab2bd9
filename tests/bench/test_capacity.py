"""The capacity of a cache is found in times of reading, and only where they show one."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from roofline.bench.backend import Launch, Timer
from roofline.bench.capacity import HAD, as_measured, capacity, look
from roofline.bench.published import PublishedRates
from roofline.bench.records import Record, Records, RunHeader
from roofline.cost.kernels.form import Machine
from roofline.cost.kernels.processor import missed
from roofline.cost.work import Array
from roofline.records import replace

SIZES = 2.0 ** np.arange(20, 31, 0.5)
NOMINAL = 2.0**29


def times(last: float, own: float = 2.0**21) -> Array:
    """Time of a byte: longer in the last-level cache than in a core's own, longest in memory."""
    near = 1 / 60e9 + missed(SIZES, own) / 50e9
    return np.asarray(near + missed(SIZES, last) / 30e9)


@pytest.mark.parametrize("octave", [24.0, 25.3, 26.8, 28.0])
def test_a_planted_capacity_is_found_within_a_quarter_octave(octave: float) -> None:
    found = capacity(SIZES, times(2.0**octave), NOMINAL)
    assert np.log2(found) == pytest.approx(octave, abs=0.25)


def test_noise_moves_it_by_no_more_than_half_an_octave() -> None:
    random = np.random.default_rng(3)
    for _ in range(10):
        noisy = times(2.0**26) * np.exp(random.normal(0.0, 0.05, SIZES.shape))
        assert np.log2(capacity(SIZES, noisy, NOMINAL)) == pytest.approx(26.0, abs=0.5)


def test_a_single_step_is_that_to_memory() -> None:
    one = 1 / 60e9 + missed(SIZES, 2.0**25) / 30e9
    assert np.log2(capacity(SIZES, one, NOMINAL)) == pytest.approx(25.0, abs=0.25)


def test_the_nominal_size_stands_where_no_step_is_seen() -> None:
    assert capacity(SIZES, np.full(SIZES.shape, 1e-10), NOMINAL) == NOMINAL
    assert capacity(SIZES[:9], times(2.0**21)[:9], NOMINAL) == NOMINAL


def test_a_look_reads_each_size_some_times_up_to_twice_the_nominal_one() -> None:
    read: list[int] = []

    def timer(launches: Sequence[Launch]) -> Timer:
        def mean(runs: int) -> float:
            read.append(runs)
            return 1e-3

        return mean

    assert look(timer, 2.0**23) == 2.0**23
    assert len(read) == 4 * 9


def record(size: float, probe: str = "read") -> Record:
    place = int(np.argmin(np.abs(SIZES - size)))
    seconds = float(times(2.0**26)[place] * size)
    work = {"flops": 0.0, "weight_bytes": 0.0, "activation_bytes": size, "kv_bytes": 0.0}
    about = (f"{probe} size={size}", probe, "pointwise", "warm", "warm", "")
    at = {"size": int(size)}
    return Record(*about, at, work, reuse=size, samples=(seconds,), stopped="converged")


def test_a_machine_has_the_capacity_that_its_rows_tell() -> None:
    nominal = PublishedRates("cpu-generic", Machine(1e11, 1e11, NOMINAL, 0.0, 1.0))
    had = {HAD: str(2.0**24)}
    found = as_measured(nominal, run(had, [record(size) for size in SIZES]))
    assert np.log2(found.machine.l2_bytes) == pytest.approx(26.0, abs=0.25)
    assert replace(found, machine=nominal.machine) == nominal
    for few in ([record(size) for size in SIZES[:5]], [record(size, "copy") for size in SIZES]):
        assert as_measured(nominal, run(had, few)).machine.l2_bytes == 2.0**24
    assert as_measured(nominal, run({}, [record(size) for size in SIZES])) == nominal


def run(environment: Mapping[str, str], rows: Sequence[Record]) -> Records:
    about = {"schema_version": 2, "run": "0123456789", "provider": "numpy", "probes": {}}
    told = {"machine": "here", "date": "2026-01-01", **environment}
    return Records(RunHeader.model_validate({**about, "environment": told}), tuple(rows))
