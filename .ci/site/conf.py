"""Documentation site: the pages of the repository as they are, by Sphinx, from the README on.

``sphinx-build -W -c .ci/site . build/site`` writes it; a link that leads nowhere is an error.
``.ci/reference.py build/site/reference`` adds the reference of the API.
"""

import shutil
from pathlib import Path

from sphinx.application import Sphinx

project = "roofline"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "README.md",
    ".github/CONTRIBUTING.md",
    "scenarios/*.md",
    "scenarios/*/*.md",
    "hwspecs/*.md",
    "microbench/README.md",
    "reports/README.md",
    "tests/gpu/README.md",
]
myst_heading_anchors = 3
html_theme = "furo"
html_theme_options = {"light_css_variables": {"code-font-size": "11.5px"}}
"""A terminal's hundred columns fit the width of the text."""
html_title = "roofline"
html_show_sourcelink = False
highlight_language = "none"

CONTENTS = """
```{toctree}
:caption: Guide
:hidden:

scenarios/guide/README
scenarios/guide/analyse
scenarios/guide/networks
scenarios/guide/parallelism
scenarios/guide/speculation
scenarios/guide/sweeps
scenarios/guide/serving
scenarios/guide/planning
scenarios/guide/facility
scenarios/guide/agents
scenarios/guide/engines
scenarios/guide/files
scenarios/guide/calibration
scenarios/guide/accuracy
scenarios/guide/commands
scenarios/guide/troubleshooting
scenarios/guide/changes
scenarios/guide/nomenclature
```

```{toctree}
:caption: More
:hidden:

scenarios/TUTORIAL
scenarios/SYSTEMS
scenarios/README
scenarios/models/README
scenarios/workloads/README
hwspecs/README
hwspecs/ablation
hwspecs/left-out
hwspecs/outside
microbench/README
tests/gpu/README
reports/README
.github/CONTRIBUTING
```
"""


def add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the first page the list of all others, which a repository shows by itself."""
    if name == root_doc:
        source[0] += CONTENTS


def add_index(app: Sphinx, error: Exception | None) -> None:
    """Make the first page the one that a folder opens with."""
    if error is None:
        folder = Path(app.outdir)
        shutil.copy(folder / f"{root_doc}.html", folder / "index.html")


def setup(app: Sphinx) -> None:
    """Connect the two."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", add_index)
