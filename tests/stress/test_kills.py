"""Commands killed at random moments leave whole files, and nothing else once they have run again.

``ROOFLINE_KILLS`` sets how many kills there are.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stress import killing
from tests.study.store.test_store_kill import KILLS


@pytest.mark.stress
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills what it has forked")
def test_killed_commands_leave_whole_files_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", killing.__name__, str(KILLS), str(tmp_path / "k")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"\n  {found}")  # noqa: T201
    assert sum(found["kills"].values()) >= KILLS
