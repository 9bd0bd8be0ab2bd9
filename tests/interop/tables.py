"""Tables of the guide about files of other tools, made from the readers and writers themselves.

``python -m tests.interop.tables`` puts them into the page.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roofline.interop.commands.pins import BENCHMARKS, PINS
from roofline.interop.results import known_formats, read_results
from roofline.interop.results.run import UNITS, ResultFormat
from roofline.interop.traces import chats, mooncake
from roofline.interop.traces.tables import FORMATS
from tests.documents import ROOT
from tests.interop.results.test_formats import DATA, FILES

PAGE: Final = ROOT / "scenarios" / "guide" / "files.md"
NAMES: Final = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "latency": "latency",
    "output_throughput": "output tok/s",
    "input_throughput": "prompt tok/s",
    "total_throughput": "all tok/s",
    "request_throughput": "requests/s",
}


def rows(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tools() -> str:
    """Tool, releases, kind of file, and figures that are read of it, by the files of the tests."""
    body = []
    for each in sorted(known_formats(), key=lambda each: each.title.lower()):
        title, _, kind = each.title.removesuffix(")").rpartition(" (")
        body.append((title, each.versions or "-", kind, _figures(each), f"`{each.name}`"))
    return rows(("tool", "releases", "file", "figures read", "`--as`"), body)


def _figures(format_: ResultFormat) -> str:
    """Metrics of the files of a format; those that have percentiles are marked."""
    runs = [
        run
        for name, (wanted, _) in FILES.items()
        if wanted == format_.name
        for run in read_results(DATA / name)
    ]
    every = [each for run in runs for each in run.measurements]
    spread = {each.metric for each in every if each.statistic.startswith("p")}
    had = {each.metric for each in every}
    return ", ".join(
        f"{NAMES[metric]}{'*' if metric in spread else ''}" for metric in UNITS if metric in had
    )


def traces() -> str:
    """Recorded requests by name, where they are from, and what they say."""
    body = [
        (f"`{each.name}`", each.title, "yes" if len(each.columns) == 3 else "no", "as recorded", "")
        for each in FORMATS
    ]
    body += [
        ("`mooncake`", "Mooncake: conversation, toolagent, synthetic (arXiv 2407.00079)", "yes",
         "as recorded", f"blocks of {mooncake.BLOCK}"),
        ("`bailian`", "Qwen on Bailian (arXiv 2506.02634)", "yes", "as recorded",
         f"blocks of {mooncake.BAILIAN_BLOCK}"),
    ]  # fmt: skip
    body += [(f"`{name}`", title, "no", "estimated", "") for name, title in chats.TITLES.items()]
    return rows(("format", "from", "times", "lengths", "shared prefixes"), body)


def targets() -> str:
    """Target, release, flags that are checked, and how."""
    body = [
        (f"`{pin.target}`", pin.version, str(len(pin.flags)) if pin.flags else "-", pin.how,
         pin.checked)
        for pin in PINS
    ]  # fmt: skip
    body += [
        (f"`{each.tool}`", each.version, str(len(each.flags)), "flags in its wheel, by a test",
         PINS[0].checked)
        for each in BENCHMARKS
    ]  # fmt: skip
    return rows(("target", "release", "flags", "checked against", "day"), body)


TABLES: Final = {"tools": tools, "traces": traces, "targets": targets}


def renewed(text: str) -> str:
    """The page with its tables as they are now; each stands between two comments."""
    for name, made in TABLES.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition(f"<!-- /{name} -->")
        text = f"{before}<!-- {name} -->\n{made()}\n<!-- /{name} -->{after}"
    return text


if __name__ == "__main__":
    path = Path(PAGE)
    path.write_text(renewed(path.read_text("utf-8")), "utf-8")
