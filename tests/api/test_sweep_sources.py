"""A sweep goes on with rows of the same files alone, and names the one that was changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline import sources
from roofline.api import sweep
from roofline.content import shipped
from roofline.errors import InputError, PartialError
from roofline.study.scenario.reading import read_scenario
from roofline.study.store.folder import Progress
from tests.study.scenario.documents import BATCH

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
QUANTISED = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of a scenario about a network of a folder, a patch on another, and an own GPU."""
    for name in ("net", "base"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(CONFIG))
    patch = {"schema_version": 1, "name": "patch", "base": "base", "patch": {"window": 1024}}
    (tmp_path / "patch.json").write_text(json.dumps(patch | {"source": {"title": "t"}}))
    shutil.copy(shipped("hwspecs") / "gpus" / "h100-sxm.yaml", tmp_path / "mine.yaml")
    data = {**BATCH, "models": ["./net", "./patch.json"], "gpus": ["mine.yaml"], "batch": [1, 2]}
    (tmp_path / "s.json").write_text(json.dumps(data))
    return tmp_path


def go_on(folder: Path) -> None:
    sweep(folder / "s.json", out=folder / "out", keep="all", workers=1)


def fewer_layers(path: Path) -> None:
    path.write_text(json.dumps({**CONFIG, "num_hidden_layers": 16}))


CHANGES: dict[str, Callable[[Path], object]] = {
    "net/config.json": fewer_layers,
    "base/config.json": fewer_layers,
    "patch.json": lambda path: path.write_text(path.read_text().replace("1024", "512")),
    "net/hf_quant_config.json": lambda path: path.write_text(json.dumps(QUANTISED)),
    "mine.yaml": lambda path: path.write_text(path.read_text().replace("3.35 TB/s", "3.2 TB/s")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_was_changed_is_named_and_its_rows_are_not_mixed(
    folder: Path, name: str
) -> None:
    go_on(folder)
    go_on(folder)
    before = (folder / name).read_bytes() if (folder / name).exists() else None
    CHANGES[name](folder / name)
    with pytest.raises(InputError, match=f"another sweep: .* other content of {name}\n"):
        go_on(folder)
    if before is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(before)
    go_on(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(sources.installed()))
def test_rows_of_other_shipped_data_or_another_program_are_not_gone_on_with(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(folder)
    other = {**sources.installed(), name: "other"}
    monkeypatch.setattr("roofline.study.store.folder.installed", lambda: other)
    with pytest.raises(InputError, match=f"other content of {name}\n"):
        go_on(folder)


def test_every_shipped_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("hwspecs/gpus", "hwspecs/calibrations/h100-sxm"):
        shutil.copytree(shipped("hwspecs").parent / part, tmp_path / part)
    monkeypatch.setattr(sources, "shipped", lambda folder: tmp_path / folder)
    cleared = (sources.installed, sources._shelves)

    def installed() -> dict[str, str]:
        for each in cleared:
            each.cache_clear()
        return dict(sources.installed())

    try:
        before = installed()
        for path in sorted(tmp_path.rglob("*.*"))[::17]:
            content = path.read_bytes()
            path.write_bytes(content + b"\n")
            after = installed()
            assert len(after.items() - before.items()) == 1, path
            path.write_bytes(content)
        assert installed() == before
    finally:
        for each in cleared:
            each.cache_clear()


def test_a_sweep_stops_at_a_file_that_changes_while_it_runs(folder: Path) -> None:
    def change(now: Progress) -> None:
        if not now.done:
            fewer_layers(folder / "net" / "config.json")

    asked = read_scenario(folder / "s.json")
    with pytest.raises(PartialError, match=r"config\.json was changed .*; 0 of 1 chunks are kept"):
        sweep(asked, out=folder / "out", keep="all", workers=1, progress=change)


def test_a_link_that_points_elsewhere_while_a_sweep_runs_is_a_change(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "link"
    link.symlink_to("one")
    found = sources.Sources()
    found.add(link, b"one")
    assert found.changed() is None
    link.unlink()
    link.symlink_to("other")
    assert found.changed() == link


def test_a_folder_can_be_moved_with_its_scenario(folder: Path) -> None:
    go_on(folder)
    for name in ("net", "base", "patch.json", "mine.yaml", "s.json", "out"):
        (folder / "elsewhere").mkdir(exist_ok=True)
        shutil.move(folder / name, folder / "elsewhere" / name)
    go_on(folder / "elsewhere")
