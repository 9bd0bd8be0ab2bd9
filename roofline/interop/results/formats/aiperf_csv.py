"""Summary of AIPerf, and of GenAI-Perf before it, as CSV: two tables, one below the other.

As `src/aiperf/exporters/metrics_csv_exporter.py` of AIPerf 0.1 to 0.12
(github.com/ai-dynamo/aiperf) and `genai_perf/export_data/csv_exporter.py` of GenAI-Perf
(github.com/triton-inference-server/perf_analyzer) write it: ``Metric,avg,min,max,…`` of requests,
``Metric,Value`` of the whole, and a third table of the devices. Names end in their unit; numbers
have commas for thousands. GenAI-Perf says "Time To First Token (ms)" and "(per sec)", AIPerf
"Time to First Token (ms)" and "(tokens/sec)". Neither says what was run, nor its own version.
"""

import csv
import re
from collections.abc import Iterator
from typing import Final

from roofline.interop.results.content import Content
from roofline.interop.results.formats.aiperf_json import RATES, TIMES
from roofline.interop.results.measuring import seconds_in, several, spread
from roofline.interop.results.node import Node, number
from roofline.interop.results.run import Format, MeasuredRun, Measurement, Scenario
from roofline.interop.results.table import header

NAME = "aiperf-csv"
_NAMED: Final = re.compile(r"(?P<name>[^()]*?)\s*(?:\((?P<unit>[^()]*)\))?")


def _recognises(content: Content) -> bool:
    return header(content)[:2] in (("metric", "avg"), ("metric", "value"))


def _read(content: Content) -> Iterator[MeasuredRun]:
    tables = _tables(content)
    output = tables.get("output_sequence_length")
    prompt = tables.get("input_sequence_length")
    requests = tables.get("request_count")
    mean = number(output, "avg") if output is not None else None
    ends = (number(output, key) if output is not None else None for key in ("min", "max"))
    low, high = ends
    yield MeasuredRun(
        tool="AIPerf or GenAI-Perf",
        format=NAME,
        version="",
        where=content.source,
        scenario=Scenario(
            gpu=_gpu(content),
            requests=round(requests.at("value").number()) if requests is not None else None,
            prompt=number(prompt, "avg") if prompt is not None else None,
            output=mean,
            spread=spread(low, mean, high),
        ),
        measurements=tuple(_measured(tables)),
    )


def _tables(content: Content) -> dict[str, Node]:
    """Rows of the first two tables by the name of their metric."""
    out: dict[str, Node] = {}
    names: list[str] = []
    for line, cells in _lines(content):
        if cells[0].lower() in ("metric", "endpoint"):
            names = [cell.lower() for cell in cells]
        elif names[:1] == ["metric"]:
            if len(cells) != len(names):
                raise content.error(
                    f"the line has {len(cells)} values, the header {len(names)}",
                    "copy the whole file again, or remove the line",
                    line,
                )
            found = _NAMED.fullmatch(cells[0])
            key = found["name"].lower().replace(" ", "_") if found else cells[0].lower()
            stated = {"unit": found["unit"]} if found and found["unit"] else {}
            figures = {name: cell for name, cell in zip(names[1:], cells[1:], strict=True) if cell}
            out[key] = Node(figures | stated, f"{content.source}:{line}")
    return out


def _lines(content: Content) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(content.text.split("\n"), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error:
        raise content.error(
            "the line is not CSV", "check commas and quotes", reader.line_num
        ) from None


def _gpu(content: Content) -> str:
    """Device of the third table, if all are alike."""
    names: set[str] = set()
    column = -1
    for _, cells in _lines(content):
        lower = [cell.lower() for cell in cells]
        if "gpu_name" in lower:
            column = lower.index("gpu_name")
        elif lower[0] == "metric":
            column = -1
        elif 0 <= column < len(cells):
            names.add(cells[column])
    return names.pop() if len(names) == 1 else ""


def _measured(tables: dict[str, Node]) -> Iterator[Measurement]:
    for metric, (name, definition) in TIMES.items():
        row = tables.get(name)
        if row is not None:
            yield from several(row, metric, definition, scale=seconds_in(row.at("unit")))
    for metric, (name, definition) in RATES.items():
        row = tables.get(name)
        value = None if row is None else number(row, "value") or number(row, "avg")
        if value is not None:
            yield Measurement(metric, "mean", value, name, definition)


FORMAT = Format(NAME, "AIPerf or GenAI-Perf (CSV)", _recognises, _read)
