"""Prints the measured and claimed golden figures beside ours, after the tests."""

import pytest

from tests.golden.adapters import BESIDE
from tests.golden.rows import SCALE, ours, rows


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per row; nothing here passes or fails."""
    terminalreporter.section("golden figures that were measured or claimed, beside ours")
    for row in rows().values():
        if not row.measured:
            continue
        figure = "no figure of ours"
        if row.id in BESIDE:
            number = ours(BESIDE[row.id], row) / SCALE[row.unit]
            figure = f"ours {number:.3g} {row.unit}, forward pass alone"
        terminalreporter.write_line(
            f"{row.id:12} {row.quantity}: {row.usable} {row.unit}; {figure} ({row.source})"
        )
