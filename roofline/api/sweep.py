"""Many configurations at once: a scenario priced chunk by chunk, and what is kept of it."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofline.api.lanes import Lanes
from roofline.errors import InputError
from roofline.study import long_run, pointwise
from roofline.study.grid import Grid
from roofline.study.keeping import Keep
from roofline.study.rows import columns, rows
from roofline.study.scenario import Scenario, scenario_named
from roofline.study.scenario.crossing import grid_of

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa
