"""Names of calibrations that no file can have."""

import pytest

from roofline.bench.calibrations import find
from roofline.errors import UnknownNameError


@pytest.mark.parametrize("name", ["a" * 400, "a\0b"])
def test_a_name_that_no_file_can_have_is_unknown(name: str) -> None:
    with pytest.raises(UnknownNameError, match="there is no calibration") as caught:
        find(name)
    assert len(caught.value.told) < 200
