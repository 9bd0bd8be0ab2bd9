"""The small kernels' numbers, on a CPU."""

from pathlib import Path

import pytest

from roofline.bench.gpu.kernels import nothing
from tests.microbench.emulation import Emulator, schedules_of
from tests.microbench.small_cases import BUILDERS


@pytest.mark.parametrize("name", BUILDERS)
def test_a_small_kernel_is_its_formula(name: str, libraries: Path) -> None:
    for schedule in schedules_of(name, BUILDERS):
        case = BUILDERS[name]()
        Emulator(libraries, schedule).run(*case.launches(case.arrays))
        assert case.error(case.arrays[case.result]) < case.tolerance


def test_nothing_can_be_launched(libraries: Path) -> None:
    Emulator(libraries).run(*nothing())
