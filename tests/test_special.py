"""Special functions are SciPy's own, without its packages."""

import subprocess
import sys

import numpy as np
import pytest

from roofline import special

ALONE = """
import sys
from roofline import special
found = special.compiled("scipy.special._ufuncs")
assert not {"scipy.special", "numpy.f2py", "numpy.testing"} & set(sys.modules)
import scipy.special
assert scipy.special.ndtr is found.ndtr
assert scipy.special.logsumexp([0.0]) == 0.0
special.compiled("scipy.linalg.cython_blas")
import scipy.linalg, scipy.stats, scipy.optimize
assert special.compiled("scipy.special._ufuncs") is found
"""


@pytest.mark.slow
def test_functions_come_without_their_package_which_is_whole_afterwards() -> None:
    ran = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_functions_are_those_of_scipy_to_the_last_bit() -> None:
    from scipy import special as whole

    some = np.linspace(0.01, 0.99, 50)
    for name in ("gammaln", "ndtr", "ndtri"):
        assert np.array_equal(getattr(special, name)(some), getattr(whole, name)(some))
    assert np.array_equal(special.lambertw(some), whole.lambertw(some).real)
    for name in ("gammainc", "gammaincinv"):
        assert np.array_equal(getattr(special, name)(2.5, some), getattr(whole, name)(2.5, some))


def test_a_module_that_is_not_there_is_an_import_error() -> None:
    with pytest.raises(ImportError):
        special.compiled("scipy.special.nowhere")
