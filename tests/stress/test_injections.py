"""Strings that do something elsewhere, opened where they would: a browser, a spreadsheet, a shell,
YAML, Kubernetes, a terminal, paths and links.

Each kind has a control: the same string, written without care, is seen to act.
"""

import csv
import html
import io
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
import yaml

from roofline.bench.campaign import _list
from roofline.bench.probe import points
from roofline.bench.profile_file import load
from roofline.bench.recorder import begin
from roofline.bench.records import read_records
from roofline.cli import run
from roofline.cli.render import OutputFormat, print_rows, write_csv
from roofline.errors import RooflineError
from roofline.files import text_output
from roofline.interop.commands import targets
from roofline.interop.commands.command import shell
from roofline.model.catalog import architecture
from roofline.model.checkpoint import stored_bytes
from roofline.report import render, write
from roofline.table import Result
from tests.bench.probes import loaded, measurement, probe
from tests.cases import cases
from tests.interop.commands.serving import SITE
from tests.interop.commands.test_hostile_names import HOSTILE as NAMES
from tests.interop.commands.test_hostile_names import asked, expanded
from tests.report.conftest import result as result
from tests.report.hostile import HOSTILE, MANY, poisoned
from tests.report.test_browser import Visit
from tests.stress.readers import CONFIG

FORMULAS: Final = [
    f"{sign}{rest}"
    for sign in ("=", "+", "-", "@", "\t=", "\r=")
    for rest in ("cmd|' /C calc'!A0", 'HYPERLINK("http://x","y")', "SUM(A1:A9)", "1+1|x", "A1")
]
ESCAPES: Final = [
    "\x1b[31mred", "\x1b[2J", "\x1b]0;title\x07", "\x1b[6n", "\x90q\x9c", "\x9b31m", "a\rb", "a\bb",
    "a\x1b]8;;x:y\x07b", "\x07", "\u202eabc", "\u2066abc", "\x0e", "\u200eabc", "\u2028x", "\x85",
]  # fmt: skip
TAGS: Final = [
    "!!python/object/apply:os.system ['touch pwned']", "!!python/name:os.system", "&a [*a]",
    "*a", "<<: {a: b}", "? a", "a: b", "|", "> ", "{a: b}", "[a]", "%TAG", "#c", "x #c",
    "0x1F", "1_000", "12:30:45", "2001-01-01", "~", "yes", "NO", ".inf", "=", "'", '"', '""', "''",
]  # fmt: skip
ABOVE: Final = [
    "../canary", "../../canary", "a/../../canary", "/canary", "~/canary", "..", ".", "a/b",
    "a\\..\\canary", "%2e%2e/canary", "\0canary", "canary\n", "-canary", "CANARY", "",
]  # fmt: skip
LINKED: Final = ["run.json", "0001-toy.parquet", "0002-toy.parquet", "left-out.txt"]
VARIABLES: Final = ["$(HOSTNAME)", "x$(HOSTNAME)y", "$$(HOSTNAME)", "$$$(HOSTNAME)", "$(A)$(B)"]


def test_there_are_enough_of_them() -> None:
    shells = 2 * len(targets.ENGINES) * len(NAMES)
    manifests = 2 * len([*TAGS, *NAMES, *VARIABLES])
    others = 2 * len(FORMULAS) + 4 * len(ESCAPES) + 3 * len(ABOVE) + len(LINKED)
    assert len(MANY) + shells + manifests + others >= 300


# A browser.


def acted(visit: Visit) -> bool:
    """Whether a script ran, or was stopped from running, or something was asked for."""
    visit.page.mouse.move(400, 400)
    visit.page.wait_for_timeout(100)
    try:
        visit.is_quiet()
    except AssertionError:
        return True
    return False


@pytest.mark.browser
def test_a_browser_runs_none_of_them(browser: Any, tmp_path: Path, result: Result) -> None:
    for number in count():
        taken: list[str] = []

        def texts(start: int = number * 40, seen: list[str] = taken) -> Iterator[str]:
            for place in count(start):
                seen.append(MANY[place % len(MANY)])
                yield seen[-1]

        path = tmp_path / f"{number}.html"
        write(poisoned(result, texts()), path)
        visit = Visit(browser, path)
        assert not acted(visit), number
        visit.context.close()
        assert len(taken) > 40
        if number * 40 + len(taken) > len(MANY):
            break


@pytest.mark.browser
@pytest.mark.parametrize("policy", [True, False])
def test_a_browser_is_seen_to_run_one(
    browser: Any, tmp_path: Path, result: Result, policy: bool
) -> None:
    text = next(each for each in HOSTILE if each.startswith("<img"))
    page = render(poisoned(result, [text]))
    raw = page.replace(html.escape(text), text)
    assert raw != page
    if not policy:
        raw = raw.replace("Content-Security-Policy", "nothing")
    path = tmp_path / "page.html"
    path.write_text(raw, "utf-8")
    visit = Visit(browser, path)
    assert acted(visit)
    assert ("dialog" in visit.said) is not policy
    visit.context.close()


# A spreadsheet.


def computed(text: str) -> list[str]:
    """Cells that a spreadsheet computes, in place of showing them."""
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    plain = [cell for cell in cells if cell.lstrip("\t\r").startswith(tuple("=+-@"))]
    return [cell for cell in plain if not cell.replace(".", "").lstrip("+-").isdigit()]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_spreadsheet_computes_none_of_them(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([[text, "-1.5", "1"]], ["a", "b", "c"], OutputFormat.CSV)
    write_csv(pd.DataFrame({text: ["x"], "name": [text], "number": [-1.5]}), tmp_path / "f.csv")
    for written in (capsys.readouterr().out, (tmp_path / "f.csv").read_text("utf-8")):
        assert "-1.5" in written
        assert computed(written) == []
    out = io.StringIO(newline="")
    csv.writer(out).writerow([text])
    assert computed(out.getvalue())


# A shell.


def ran(script: str, folder: Path) -> bool:
    """Whether a script has done what a name says."""
    subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, check=False)
    there = (folder / "pwned").exists()
    (folder / "pwned").unlink(missing_ok=True)
    return there


@pytest.mark.parametrize("engine", targets.ENGINES)
def test_a_shell_runs_none_of_them(engine: str, tmp_path: Path) -> None:
    acting = 0
    for name in NAMES:
        written = targets.write(engine, asked(engine, name), SITE)
        for parts in (written.parts, written.benchmark):
            assert not ran(f"true {shell(parts)}", tmp_path), name
        acting += ran(f"true {name}", tmp_path)
    assert acting >= 3


# YAML and Kubernetes.


def documents(target: str, name: str) -> str:
    (text,) = targets.write(target, asked("vllm", name), SITE).files.values()
    return text


@pytest.mark.parametrize("target", ["k8s", "ray-serve"])
@pytest.mark.parametrize("name", [*TAGS, *NAMES, *VARIABLES])
def test_yaml_takes_none_of_them_for_more_than_text(
    target: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = documents(target, name)
    harmless = documents(target, "harmless")
    found = [yaml.unsafe_load(part) for part in text.split("\n---\n")]
    assert shape(found) == shape([yaml.safe_load(part) for part in harmless.split("\n---\n")])
    assert not (tmp_path / "pwned").exists()
    if target == "k8s":
        words = found[0]["spec"]["template"]["spec"]["containers"][0]["command"]
        assert expanded(words[2], {"HOSTNAME": "pwned", "A": "pwned", "B": "pwned"}) == name


def shape(value: Any) -> Any:
    """Keys and kinds of a document."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else type(value)


def test_yaml_and_the_kubelet_are_seen_to_act_on_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    raw = documents("ray-serve", "harmless").replace('"harmless"', TAGS[0])
    yaml.unsafe_load(raw)
    assert (tmp_path / "pwned").exists()
    assert expanded(VARIABLES[0], {"HOSTNAME": "pwned"}) == "pwned"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the path")
def test_the_parser_of_kubernetes_finds_the_same_objects(tmp_path: Path) -> None:
    names = [*TAGS, *NAMES, *VARIABLES]
    for place, name in enumerate(names):
        text = documents("k8s", name)
        (tmp_path / f"{place}.yaml").write_text(text.replace("name: ", f"name: n{place}-"))
    assert len(objects(tmp_path, [f"{place}.yaml" for place in range(len(names))])) >= len(names)
    plain = documents("k8s", "harmless").replace(
        '"harmless"', '"x"\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: pwned}\n'
    )
    (tmp_path / "raw.yaml").write_text(plain[: plain.index("name: pwned}") + len("name: pwned}\n")])
    assert "Secret" in {each["kind"] for each in objects(tmp_path, ["raw.yaml"])}


def objects(folder: Path, names: list[str]) -> list[Any]:
    """Objects that Kubernetes finds in files; none of them a Secret that no file is of."""
    (folder / "kustomization.yaml").write_text(json.dumps({"resources": names}))
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, yaml.BaseLoader))


# A terminal.


def steers(text: str) -> bool:
    """Whether a terminal does something else than to show a text."""
    return not text.replace("\n", "").isprintable()


@pytest.mark.parametrize("text", ESCAPES[:: cases(2, 1)])
def test_a_terminal_is_steered_by_none_of_them(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{text}.json"
    path.write_text(CONFIG)
    for form in ("table", "json", "csv", "md"):
        assert run(["compare", str(path), "--with", "gqa=4", "--format", form]) == 0
        out, err = capsys.readouterr()
        assert not steers(out), form
        assert not steers(err)
    assert run(["analyze", str(tmp_path / f"{text}.yaml")]) == 2
    assert not steers(capsys.readouterr().err)
    assert steers(f"{path.stem}\n")


# Paths and links.


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in folders, in each of which is a file that nobody may touch."""
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "a", tmp_path / "a" / "b"):
        (folder / "canary").write_text(CONFIG)
        (folder / "canary.yaml").write_text("dear to somebody")
    monkeypatch.chdir(inner)
    monkeypatch.setenv("ROOFLINE_HOME", str(inner / "home"))
    return tmp_path


def outside(sandbox: Path) -> dict[str, bytes]:
    inner = sandbox / "a" / "b" / "c"
    files = [path for path in sandbox.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in files if not path.is_relative_to(inner)}


def indexed(name: str) -> None:
    Path("model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    stored_bytes(Path())


def called(name: str) -> None:
    """A run whose machine is called so, fitted into a calibration that is called after it."""
    text = {
        "schema_version": 2, "run": "0123456789", "provider": "numpy", "probes": {},
        "environment": {"machine": name, "date": "2025-01-01"},
    }  # fmt: skip
    Path("records").mkdir(exist_ok=True)
    Path("records/run.json").write_text(json.dumps(text))
    assert read_records(Path("records")).header.environment["machine"] == "CANARY", name


def titled(name: str) -> None:
    Path("mine.yaml").write_text(f"schema_version: 1\nname: {json.dumps(name)}\n")
    load(Path("mine.yaml"))


@pytest.mark.parametrize("name", ABOVE)
@pytest.mark.parametrize("use", [indexed, called, titled])
def test_no_name_in_a_file_is_a_path_to_another(
    sandbox: Path, name: str, use: Callable[[str], None]
) -> None:
    before = outside(sandbox)
    with pytest.raises(RooflineError) as refused:
        use(name)
    assert "model_type" not in str(refused.value)
    assert outside(sandbox) == before


def test_a_path_that_is_followed_is_seen(sandbox: Path) -> None:
    before = outside(sandbox)
    Path(ABOVE[0]).write_text("changed")
    assert outside(sandbox) != before


@pytest.mark.parametrize("name", LINKED)
def test_links_among_the_files_of_a_run_are_not_followed(sandbox: Path, name: str) -> None:
    before = outside(sandbox)
    folder = Path("records")
    folder.mkdir()
    (folder / name).symlink_to(sandbox / "nowhere")
    recorder = begin(folder, "numpy", {"machine": "toy", "date": "now"}, [loaded(probe())])
    with suppress(RooflineError):
        for point in points(probe()):
            recorder.keep(measurement(point, 0.5, 0.25, 1.0, stopped="time"))
    _list((), folder)
    assert outside(sandbox) == before


def test_a_link_that_is_followed_is_seen(sandbox: Path) -> None:
    before = outside(sandbox)
    Path("f").symlink_to(sandbox / "nowhere")
    with text_output(Path("f")) as text:  # what the user has named is followed
        text.write("x")
    assert outside(sandbox) != before


def test_a_base_of_a_patch_is_read_and_nothing_is_written(sandbox: Path) -> None:
    before = outside(sandbox)
    Path("mine.yaml").write_text('base: "../canary"\npatch: {}\n')
    with pytest.raises(RooflineError):
        architecture("mine.yaml")
    assert outside(sandbox) == before


def test_words_of_a_command_line_stay_words() -> None:
    for name in NAMES:
        line = targets.write("vllm", asked("vllm", name), SITE).line
        assert name in shlex.split(line.replace("\\\n", " "))
