"""Counts of chunks are added up, however the sweep got to its end."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roofline.study.executors.local import Local
from roofline.study.store.chunk import Chunk
from roofline.study.store.folder import Progress, SweepTask, run
from roofline.study.store.parts import TALLY
from tests.study.store.works import Rows


@dataclass(frozen=True, slots=True)
class Counting:
    """Counts what `PointRows` leaves out."""

    def __call__(self, chunk: Chunk) -> Any:
        kept = Rows()(chunk)
        counts = {"kept": len(kept), "left out": len(chunk) - len(kept)}
        return kept.replace_schema_metadata({TALLY: json.dumps(counts)})


TASK = SweepTask("abc", 100, 16, Counting())
WHOLE = {"kept": 67, "left out": 33}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_counts_are_of_all_configurations(tmp_path: Path, workers: int) -> None:
    assert run(tmp_path, TASK, Local(workers)).tally == WHOLE


def test_counts_survive_an_interruption(tmp_path: Path) -> None:
    done: Counter[str] = Counter()

    def progress(now: Progress) -> None:
        done["chunks"] += now.chunk is not None
        if done["chunks"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, TASK, Local(1), progress)
    outcome = run(tmp_path, TASK, Local(1))
    assert outcome.resumed == 3
    assert outcome.tally == WHOLE


def test_work_that_counts_nothing_has_no_counts(tmp_path: Path) -> None:
    assert run(tmp_path, SweepTask("abc", 100, 16, Rows()), Local(1)).tally == {}
