"""Profiles of engines as files: strict, sourced, and the same again when read back."""

from pathlib import Path

import numpy as np
import pytest

from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.engines import CONSTANTS, KERNELS, PROFILES, SHARED
from roofline.bench.end_to_end.fitting import priors
from roofline.bench.end_to_end.metrics import NAMES, PLACE
from roofline.bench.end_to_end.profiles import EngineFile, ErrorFile, ProfileEvidence
from roofline.errors import InputError, RooflineError
from roofline.hardware.serving_engine import UNKNOWN
from roofline.schema import quantity, read, validate

HELD = ErrorFile(
    mode="static_batch", metric="latency_s", rows=30, median=0.08, mean=0.1, p90=0.2, inside=0.81
)
TOLD = ProfileEvidence(
    30, "0123456789abcdef", "rows of a test", (HELD,), {("vllm", "static_batch"): 0.1}
)
SHIPPED = [*PROFILES, SHARED]


def written(folder: Path, name: str = "vllm") -> Path:
    logs, sd = priors()
    return profiles.write(name, logs, sd, TOLD, folder / f"{name}.yaml")


def test_a_profile_says_the_same_when_it_is_read_back(tmp_path: Path) -> None:
    document = read(written(tmp_path))
    file = validate(EngineFile, document)
    assert (file.rows, file.source, file.digest) == (30, TOLD.source, f"sha256:{TOLD.digest}")
    logs, sd = priors()
    for name, known in CONSTANTS.items():
        unit = "s" if known.unit == "s" else ""
        value, low, high = (
            quantity(document, unit, "constants", name, key) for key in ("value", "low", "high")
        )
        place = PLACE[f"vllm.{name}"]
        assert value == pytest.approx(np.exp(logs[place]), rel=1e-3)
        assert np.log(high / low) == pytest.approx(2 * 1.2816 * sd[place], rel=1e-2)
    assert file.errors[0].inside == 0.81
    assert file.spreads[0].of == ("vllm", "static_batch")


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_holds_to_its_schema_and_says_what_it_rests_on(name: str) -> None:
    document = read(profiles.path_of(name))
    file = validate(EngineFile, document)
    constants = KERNELS if name == SHARED else CONSTANTS
    assert set(file.constants) == set(constants)
    assert file.name == name
    assert file.source
    assert bool(file.rows) == bool(file.errors)
    for key, known in constants.items():
        unit = "s" if known.unit == "s" else ""
        low, value, high = (
            quantity(document, unit, "constants", key, end) for end in ("low", "value", "high")
        )
        assert 0 < low <= value <= high, key


def test_all_constants_and_spreads_are_shipped() -> None:
    logs, spreads = profiles.load()
    assert logs.shape == (len(NAMES),)
    assert np.all(np.isfinite(logs))
    assert () in spreads
    assert all(0 < spread < 5 for spread in spreads.values())


@pytest.mark.parametrize(
    ("written_as", "instead", "said"),
    [
        ("step_s:", "stop_s:", "no constant step_s"),
        ("value: 1.000 ms", "value: 1.000 m", "1.000 m"),
        ("value: 1.000 ms", "value: -1.000 ms", "not above zero"),
        ("rows: 30", "rows: many", "rows"),
        ("schema_version: 2", "schema_version: 1", "schema_version"),
        ("source: rows of a test", "sources: rows of a test", "source"),
    ],
)
def test_a_mistake_in_a_profile_is_refused_at_its_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written_as: str,
    instead: str,
    said: str,
) -> None:
    path = written(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert written_as in text
    path.write_text(text.replace(written_as, instead, 1), encoding="utf-8")
    original = profiles.path_of
    place = {"vllm": path}
    monkeypatch.setattr(profiles, "path_of", lambda name: place.get(name) or original(name))
    profiles.shipped_profiles.cache_clear()
    try:
        with pytest.raises(RooflineError, match=said):
            profiles.load()
    finally:
        profiles.shipped_profiles.cache_clear()


def test_a_profile_of_an_engine_that_is_not_there_is_not_written(tmp_path: Path) -> None:
    logs, sd = priors()
    with pytest.raises(InputError, match="no engine has a profile"):
        profiles.write("mlc-llm", logs, sd, TOLD, tmp_path / "x.yaml")


def test_the_unknown_engine_is_a_modern_one_with_wide_margins() -> None:
    logs, _ = profiles.load()
    step = float(np.exp(logs[PLACE[f"{UNKNOWN}.step_s"]]))
    assert 5e-4 < step < 5e-3
