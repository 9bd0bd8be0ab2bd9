"""The API's names, which are imported where they are first used."""

import subprocess
import sys
from types import FunctionType

import pytest

from roofline import api


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_is_there(name: str) -> None:
    found = getattr(api, name)
    if isinstance(found, FunctionType):
        assert found.__name__ == name
        assert found.__module__.startswith("roofline.")


def test_others_are_not() -> None:
    with pytest.raises(AttributeError, match=r"'roofline\.api' has no attribute 'analyse'"):
        _ = api.analyse


def test_what_prices_a_chunk_brings_no_planner_and_no_tables_of_others() -> None:
    code = (
        "import sys, roofline.api.lanes, roofline.study.pricing\n"
        "heavy = {'roofline.study.plan.plan', 'roofline.serving.simulate', 'roofline.report',"
        " 'pandas', 'plotly', 'pyarrow'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
