"""Predictions without a mechanism: what it moves, and what it leaves as it was."""

from pathlib import Path

import pandas as pd
import pytest

from roofline.bench.end_to_end import ablation
from roofline.bench.end_to_end.ablation import Ablation, ablations, table
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.bench.engine_profiles import shipped_profile
from roofline.hardware.engine import engine
from roofline.records import replace
from tests.bench.end_to_end.test_cases import GOOD
from tests.bench.end_to_end.test_learning import at, planted

MIXTURES = {"cold_s", "launch_s", "mixture_s"}
MIXTURES |= {"experts", "experts_all", "experts_apart", "experts_prompts"}


@pytest.fixture(scope="module")
def rows() -> list[PreparedRow]:
    """One client alone, and thirty-two, measured as they are predicted."""
    return planted({}, at((1, 32), isl=1024, osl=64, length_low=0.8, length_high=1.0))


@pytest.fixture(scope="module")
def found(rows: list[PreparedRow]) -> dict[str, Ablation]:
    return {each.name: each for each in ablations(rows)}


@pytest.mark.slow
def test_what_a_row_does_not_have_changes_nothing(found: dict[str, Ablation]) -> None:
    """A dense network under vLLM: no copies of attention, no experts, decoding first."""
    for name in ("hold_steps", "first", "recv_interval", "stream_interval", *MIXTURES):
        assert list(found[name].metrics) == list(found[""].metrics), name


def test_a_time_of_every_step_is_that_of_every_token(found: dict[str, Ablation]) -> None:
    step = shipped_profile(engine("vllm")).step_s
    with_it, without = (found[name].metrics[0]["tpot_s"] for name in ("", "step_s"))
    assert with_it - without == pytest.approx(step, rel=0.02)


def test_how_clients_are_driven_moves_the_first_token(found: dict[str, Ablation]) -> None:
    """Equal lengths keep a burst together, and are longer than those of 0.8 to 1."""
    ttft = [found[name].metrics[1]["ttft_s"] for name in ("", "harness")]
    assert ttft[1] > 1.2 * ttft[0]


def test_room_that_is_never_filled_limits_nothing(rows: list[PreparedRow]) -> None:
    small = [replace(each, server=replace(each.server, kv_tokens=8192)) for each in rows]
    tight = {each.name: each for each in ablations(small)}
    assert tight["kv_tokens"].metrics[1]["ttft_s"] < 0.9 * tight[""].metrics[1]["ttft_s"]
    assert tight["kv_tokens"].metrics[0] == tight[""].metrics[0]


def test_the_table_has_all_rows_and_those_that_move(
    rows: list[PreparedRow], found: dict[str, Ablation]
) -> None:
    lines = table(rows, list(found.values()))
    assert len(lines) == 2 + len(found)
    assert lines[2].startswith("| nothing | as shipped | 0.0 / 0.0 / 0.0 | 0.0 / 0.0 / 0.0 | 0 |")
    step = next(line for line in lines if line.startswith("| `step_s`"))
    assert "| 2 | 0.0 → " in step


@pytest.mark.slow
def test_a_file_is_written_of_the_rows_of_closed_loops_alone(tmp_path: Path) -> None:
    asked = GOOD | {"quality": "ok", "gpu": "h100_sxm", "ttft_s": 0.1, "tpot_s": 0.01}
    others = [{"mode": "static_batch"}, {"quality": "wip"}, {"gpu": "b200_sxm"}]
    frame = pd.DataFrame([asked, *(asked | other for other in others)])
    assert len(ablation.closed_loops(frame)) == 1
    frame.to_csv(tmp_path / "rows.csv", index=False)
    ablation.main(tmp_path / "rows.csv", tmp_path / "ablation.md")
    text = (tmp_path / "ablation.md").read_text()
    assert " 1 measured rows of clients" in text
    assert "| `kv_tokens` |" in text
