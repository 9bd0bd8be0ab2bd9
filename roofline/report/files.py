"""Put a page on disk whole, or not at all."""

from pathlib import Path

from roofline.files import check, output
from roofline.report.page import render
from roofline.table import Result


def write(result: Result, path: Path) -> None:
    """Write the report of a result as one HTML file; see `roofline.files.output`.

    Args:
        result: What to report.
        path: File to write; one that exists is replaced.

    Raises:
        InputError: The path is a folder, or its folder does not exist.
        MissingEnvironmentError: The file cannot be written: no permission, no space.
    """
    check(path)
    page = render(result).encode()
    with output(path) as file:
        file.write(page)
