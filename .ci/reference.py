"""Write the reference of the Python API as HTML, from its docstrings.

``reference.py [FOLDER]`` writes into the folder, ``build/reference`` unless told otherwise. A
warning, as of a name that is promised and not there, is an error.
"""

import importlib
import sys
import warnings
from pathlib import Path
from typing import Final

MODULES: Final = (
    "roofline",
    "roofline.api",
    "roofline.table",
    "roofline.errors",
    "roofline.units",
    "roofline.hardware.catalog",
    "roofline.hardware.machine",
    "roofline.model.catalog",
    "roofline.model.architecture",
    "roofline.study.scenario",
    "roofline.cost.textbook",
)
"""What is documented: the front door, what its answers are, what can be given to it, formulas."""


def write(folder: Path) -> list[Path]:
    """Write the pages; return them."""
    import pdoc

    import roofline

    for name in roofline.__all__:  # found on demand otherwise, which a list of names does not see
        setattr(roofline, name, getattr(roofline, name))
    for name in MODULES:
        importlib.import_module(name)
    pdoc.render.configure(docformat="google", show_source=False)
    # What is not listed and lies under what is, is left out.
    first, *others = MODULES
    pdoc.pdoc(first, rf"!{first}\..*", *others, output_directory=folder)
    return sorted(folder.rglob("*.html"))


if __name__ == "__main__":
    warnings.simplefilter("error")
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "build/reference")
    pages = write(place)
    print(f"{len(pages)} pages in {place}")
