"""The attention kernels' numbers, on a CPU."""

from pathlib import Path

import pytest

from tests.microbench.attention_cases import CASES, build
from tests.microbench.emulation import Emulator, schedules_of


@pytest.mark.parametrize("name", CASES)
def test_attention_is_softmax_of_scores_times_values(name: str, libraries: Path) -> None:
    for schedule in schedules_of(name, CASES):
        case = build(name)
        Emulator(libraries, schedule).run(*case.launches(case.arrays))
        assert case.error(case.arrays[case.result]) < case.tolerance
