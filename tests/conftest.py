"""One thread for NumPy: more of them only wait for one another on matrices as small as these.

Set before anything loads NumPy, which reads it once.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
