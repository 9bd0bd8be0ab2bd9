"""The API's names, which are imported where they are first used."""

import pickle
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

from roofline import api
from roofline.api.lanes import ScenarioLanes
from roofline.study.pricing import Pricing
from roofline.study.scenario.crossing import grid_of
from roofline.study.store.chunk import Chunk
from tests.study.scenario.documents import BATCH, scenario

CHUNK = Chunk(0, 0, 2)


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_is_there(name: str) -> None:
    found = getattr(api, name)
    if isinstance(found, FunctionType):
        assert found.__name__ == name
        assert found.__module__.startswith("roofline.")


def test_others_are_not() -> None:
    with pytest.raises(AttributeError, match=r"'roofline\.api' has no attribute 'analyse'"):
        _ = api.analyse


@pytest.mark.slow
def test_what_prices_a_chunk_brings_no_planner_and_no_tables_of_others(tmp_path: Path) -> None:
    asked = scenario(BATCH, calibration="auto")
    lanes = ScenarioLanes(asked)
    path = tmp_path / "work"
    path.write_bytes(pickle.dumps((Pricing(asked, grid_of(asked, lanes.found), lanes), CHUNK)))
    code = (
        "import pickle, sys\nfrom pathlib import Path\n"
        "work, chunk = pickle.loads(Path(sys.argv[1]).read_bytes())\n"
        "assert len(work(chunk)) == 2\n"
        "heavy = {'roofline.study.plan.plan', 'roofline.serving.simulate', 'roofline.report',"
        " 'pandas', 'plotly'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
