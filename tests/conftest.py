"""One thread for NumPy, one browser, and examples that may take their time.

More threads only wait for one another on matrices as small as these; it is set before anything
loads NumPy, which reads it once. Playwright allows one of its own in a process.
Hypothesis fails examples of more than 200 ms, as any is on a busy machine. A test that takes a
third of a second of processor time is marked slow.
"""

import gc
import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest
from _pytest.doctest import DoctestModule

from tests.cases import examples

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


hypothesis.settings.register_profile("roofline", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("roofline")

SLOW = ("tests/validation/", "tests/stress/", "tests/microbench/")
"""Folders in which nearly every test fits, simulates or compiles."""
SLOW_MARKS = ("browser", "ray", "stress")
MARKED = re.compile(rf"mark\.({'|'.join(('slow', *SLOW_MARKS))})\b")
FIRST = (
    *("tests/validation/", "tests/study/executors/", "tests/stress/", "tests/bench/"),
    *("tests/test_readme.py", "tests/test_compiling.py", "tests/test_architecture.py"),
)
"""Files of which some take minutes: begun first, none is left for one core while others wait."""


class _Files:
    """Files are read where they may have something: it takes most of collecting.

    Modules are searched for doctests where they have any. Where slow tests alone are wanted, or all
    others, files that have none are left out.
    """

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if not found:
            return found
        text = file_path.read_text(encoding="utf-8")
        apart = file_path.relative_to(parent.config.rootpath).as_posix().startswith(SLOW)
        if self.wanted == "not slow" and apart:
            return []
        if self.wanted == "slow" and not apart and not MARKED.search(text):
            return []
        if ">>> " in text:
            return found
        return [each for each in found if not isinstance(each, DoctestModule)]


def pytest_configure(config: pytest.Config) -> None:
    """Hold for every folder, where hooks of this file are of its own alone."""
    config.pluginmanager.register(_Files(config.option.markexpr))


def pytest_collection_finish() -> None:
    """Take what was collected out of the reach of the garbage collector: it stays to the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the README's command leaves out, besides the tests that are marked one by one.

    Raises:
        UsageError: A slow test is in a file that does not say so, which no run of slow tests reads.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    marked = set()
    for item in items:
        if item.nodeid.startswith(SLOW) or any(map(item.get_closest_marker, SLOW_MARKS)):
            item.add_marker("slow")
        if item.get_closest_marker("slow") and not item.nodeid.startswith(SLOW):
            marked.add(item.path)
    for path in marked:
        if not MARKED.search(path.read_text(encoding="utf-8")):
            raise pytest.UsageError(f"{path} has slow tests: mark them there, as pytest.mark.slow")


def absent(why: str) -> NoReturn:
    """Skip where a browser is a convenience, fail where ROOFLINE_BROWSER says it is required."""
    if os.environ.get("ROOFLINE_BROWSER") == "required":
        pytest.fail(f"{why} (ROOFLINE_BROWSER=required)")
    pytest.skip(why)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; ROOFLINE_CHROMIUM names one that is not on the path."""
    try:
        from playwright import sync_api as api
    except ModuleNotFoundError:
        absent("playwright is not installed")
    found = os.environ.get("ROOFLINE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        absent("no Chromium on the path: install one, or name it in ROOFLINE_CHROMIUM")
    with api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()
