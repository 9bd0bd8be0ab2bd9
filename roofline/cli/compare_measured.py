"""``roofline compare-measured``: results of other tools' benchmarks beside predictions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import structs

from roofline.api.parameters import MeasuredComparison
from roofline.cli import options
from roofline.cli.render import (
    OutputFormat,
    echo,
    plain_values,
    print_columns,
    print_grid,
    print_json,
    print_notes,
    say,
)
from roofline.cli.report import write_page
from roofline.errors import InputError, PartialError
from roofline.table import Result, table
from roofline.units import counted
from roofline.view.grids import grid
from roofline.view.tables import shown
from roofline.view.terminal import clean, wrap
from roofline.view.words import heading

EPILOG: Final = (
    "Files are told by their content: vLLM bench serve, latency, throughput and sweep, SGLang "
    "bench_serving, GuideLLM, AIPerf and GenAI-Perf, InferenceX, trtllm-bench, llama-bench, "
    "optimum-benchmark, inference-perf, llm-d, LLMPerf, LMBench; or a CSV table of your own with "
    "columns like model, gpu, gpus, engine, "
    "concurrency, prompt, output, ttft_s, p99_ttft_ms, tpot_s, output_tok_s."
)


@options.takes(MeasuredComparison)
def compare_measured(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="What benchmarks wrote; .gz is unpacked.")],
    given: Annotated[
        str, typer.Option(help="What the files do not say, as calibrate takes it: gpu=l40s,gpus=2.")
    ] = "",
    outside: Annotated[
        bool, typer.Option("--outside", help="Print only runs that have a figure outside.")
    ] = False,
    fail_above: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="PCT",
            help="Exit 1 if a metric's median error is above this, 4 "
            "if it is not but some runs were not compared.",
        ),
    ] = None,
) -> None:
    """Compare measured runs with predictions: error, interval, and the likeliest reason.

    Exits with 1 if no run can be predicted.
    """
    from roofline.api import compare_measured as ask
    from roofline.cli.inputs import asked
    from roofline.cli.learn import parsed

    options = asked(context, MeasuredComparison)
    told = {name: value for name, value in structs.asdict(parsed(given)).items() if value}
    if both := [name for name in told if options.get(name)]:
        raise InputError(f"`given` {both[0]} beside `{both[0]}`", hint="say it once")
    result = ask(**options | told | {"files": files})
    write_page(context, result, context.params["report"])
    _print(result, context.params["format_"], outside=outside)
    if code := _judged(result, fail_above):
        raise typer.Exit(code)


def _judged(result: Result, limit: float | None) -> int:
    """Exit code, with the reason on stderr: nothing compared is no success, nor is a part of it."""
    runs, done = len(result.tables["runs"]), result.metadata["predicted"]
    if not done:
        say("nothing was compared: none of the runs is predicted")
        return 1
    errors = {row["metric"]: 100 * row["median"] for row in result.rows("summary")}
    errors.pop("all", None)
    above = [name for name in errors if limit is not None and errors[name] > limit]
    for name in above:
        say(f"median error of {clean(heading(name))} is {errors[name]:.1f} %, above {limit:g} %")
    if above:
        return 1
    if limit is not None and done < runs:
        say(f"{runs - done:,} of {runs:,} runs were not compared")
        return PartialError.exit_code
    return 0


def _print(result: Result, style: OutputFormat, *, outside: bool) -> None:
    if style is OutputFormat.JSON:
        print_json("compare-measured", plain_values(result), result.notes)
        return
    from roofline.api.measured import EXPECTED

    figures = list(result.tables["figures"].rows())
    runs = {entry["run"]: entry for entry in result.tables["runs"].rows()}
    if outside:
        kept = {entry["run"] for entry in figures if entry["inside"] is False}
        figures = [entry for entry in figures if entry["run"] in kept]
        runs = {number: entry for number, entry in runs.items() if number in kept}
    if style is OutputFormat.CSV:
        names = list(result.tables["figures"].columns)
        rows = [{"where": runs[entry["run"]]["where"], **entry} for entry in figures]
        print_columns(table(rows, dict.fromkeys(("where", *names), "")), style, "")
        return
    for run in runs.values():
        _print_run(run, [entry for entry in figures if entry["run"] == run["run"]], style)
    if summary := shown(result, "summary"):
        print_grid(summary, style)
        if style is OutputFormat.TABLE:
            held = f"{EXPECTED:.0%}".replace("%", " %")
            echo(wrap(f"Intervals are made to hold {held} of the figures that they never saw."))
    print_notes(result.notes, style)


def _print_run(run: Mapping[str, Any], figures: list[dict[str, Any]], style: OutputFormat) -> None:
    title = f"{run['run']}  {_described(run)}"
    plain = style is OutputFormat.TABLE
    echo(wrap(title) if plain else f"**{_escaped(title)}**\n")
    if not figures:
        why = f"not predicted: {run['why not'] or 'nothing that is measured in it is predicted'}"
        echo((wrap(why, "   ") if plain else f"- {_escaped(why)}") + "\n")
        return
    print_grid(
        grid(
            "figures",
            "",
            table(figures, {}),
            "metric, statistic, measured, predicted, low, error, inside",
        ),
        style,
    )
    reasons = _reasons(figures)
    for text in reasons:
        echo(wrap(text, "   ") if plain else f"- {_escaped(text)}")
    if not plain or reasons:
        echo("")


def _reasons(figures: list[dict[str, Any]]) -> list[str]:
    """Each reason once, behind the names of what it is of."""
    names: dict[str, list[str]] = {}
    for entry in figures:
        if entry["reason"]:
            names.setdefault(entry["reason"], []).append(heading(entry["metric"]))
    return [f"{', '.join(dict.fromkeys(of))}: {text}" for text, of in names.items()]


def _escaped(text: str) -> str:
    """Text in Markdown that is no markup: names in files are others' words."""
    for mark in "\\`*_[]|":
        text = text.replace(mark, f"\\{mark}")
    return clean(text).replace("\n", " ").replace("<", "&lt;")


def _described(run: Mapping[str, Any]) -> str:
    what = run["network"] or run["model"]
    device = run["device"] or run["gpu"]
    length = " → ".join(f"{run[key]:,.0f}" for key in ("prompt", "output") if run[key])
    load = _load(run)
    release = f" {run['version']}" if run["version"] else ""
    return (
        f"{run['where']}: {run['tool']}{release}; {what} on {run['gpus']} × {device}, "
        f"{run['engine']}, {load}, {length} tokens"
    )


def _load(run: Mapping[str, Any]) -> str:
    many = run["concurrency"]
    match run["load"]:
        case "open":
            return f"{run['rate']:g} requests/s" if run["rate"] else "load not known"
        case "burst" | "offline":
            return f"{run['requests']:,} at once" if run["requests"] else "all at once"
        case "batch":
            return f"batch of {many or 1:,}"
        case "prefill":
            return "a prompt alone"
        case "decode":
            return "an answer alone"
    return counted(many, "client") if many else "load not known"
