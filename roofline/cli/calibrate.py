"""``roofline calibrate``: measure this machine, fit the model to it, say how good the fit is."""

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from roofline.cli import completing
from roofline.cli.progress import print_progress
from roofline.cli.render import OutputFormat, echo, print_json, print_rows, said
from roofline.errors import InputError
from roofline.units import show, show_binary
from roofline.view.terminal import clean, wrap

if TYPE_CHECKING:
    from roofline.bench.campaign import CampaignRun
    from roofline.bench.engine import PointTimes
    from roofline.bench.profile import FittedProbe, Profile
    from roofline.bench.records import Record, Records


def notes_of(run: "CampaignRun") -> list[str]:
    """Notes on a run: noise, points that were not finished, slowed down or left out."""
    from roofline.bench.calibrating import with_others
    from roofline.bench.campaign import LEFT_OUT
    from roofline.bench.stopping import CONVERGED, SLOWED

    notes = [f"{len(run.records.rows)} points were measured in {run.seconds:.0f} s."]
    noises = [noise for noise in (run.before, run.after) if noise is not None]
    for noise in noises[-1:] if all(n.calm for n in noises) else [n for n in noises if not n.calm]:
        state = "calm" if noise.calm else "disturbed: calibrate again when it is calm"
        notes.append(f"The machine was {state}; {noise}.")
    reasons = Counter(row.stopped for row in run.records.rows)
    slow = reasons.pop(SLOWED, 0)
    loose = sum(count for reason, count in reasons.items() if reason != CONVERGED)
    notes.append(f"{loose} of them stopped before their median was known to 1%, out of time.")
    others = [row for row in run.records.rows if with_others(row)]
    if slow := slow - len(others):
        notes.append(
            f"{slow} of them were measured with the clock held down all the time "
            f"({_held(run.records.rows)}): that is what the device gives within its limits."
        )
    if others:
        notes.append(
            f"{len(others)} of them were slowed down by others all the time, and count only where "
            "there are too few points without them."
        )
    if aside := sum(sum(row.dropped.values()) for row in run.records.rows if row.stopped != SLOWED):
        held = _held(row for row in run.records.rows if row.stopped != SLOWED)
        notes.append(f"{aside} samples do not count, since the device was slowed down: {held}.")
    if run.dropped:
        counts = Counter(entry.point.probe.name for entry in run.dropped)
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        why = Counter(entry.reason for entry in run.dropped).most_common(2)
        most = "; ".join(f"{reason} ({count})" for reason, count in why)
        notes.append(
            f"{len(run.dropped)} points were left out: {listed}. Most often: {most}. "
            f"{LEFT_OUT} in the folder of the measurements lists them with the reason."
        )
    notes += run.records.notes
    return notes


def _held(rows: "Iterable[Record]") -> str:
    """Reasons for which the device was slowed down, the most frequent first."""
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.dropped)
    return ", ".join(reason for reason, _ in reasons.most_common())


class BackendName(StrEnum):
    """Array module that probes run on."""

    AUTO = "auto"
    NUMPY = "numpy"
    CUPY = "cupy"


_NUMBER: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}"
_DURATION: Final = re.compile(rf"\s*({_NUMBER})\s*(s|sec|min|m|h)?\s*")
_SECONDS: Final = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LEAST_BUDGET_S: Final = 5.0
_STARTS: Final = ("start", "launch", "each", "start_0")
"""Constants of a GPU that are printed beside its rates; the file has all of them."""
_EVERY_S: Final = 5.0
"""Between two lines of progress, where a line cannot be written over."""
_THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

BackendOf: TypeAlias = Annotated[
    BackendName,
    typer.Option(
        "--backend",
        help="numpy: this processor; cupy: a GPU; auto: a GPU where one can be reached.",
    ),
]
GpuOf: TypeAlias = Annotated[
    str,
    typer.Option(
        "--gpu",
        help="Whose published rates apply, where the GPU is not recognised.",
        autocompletion=completing.gpus,
    ),
]
Threads: TypeAlias = Annotated[
    int, typer.Option(help="Threads that NumPy computes with; times of one leave out other users.")
]
Budget: TypeAlias = Annotated[str, typer.Option(help="Time for everything: 90s, 3min.")]
RecordsOf: TypeAlias = Annotated[
    Path | None,
    typer.Option("--records", help="Folder for the measurements; goes on with those in it."),
]


def calibrate(
    budget: Budget = "3min",
    backend: BackendOf = BackendName.AUTO,
    gpu: GpuOf = "",
    threads: Threads = 1,
    records: RecordsOf = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; else one in the folder for your own.")
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Results of benchmarks to learn an engine from, each."),
    ] = None,
    logs: Annotated[
        list[Path] | None,
        typer.Option("--from-log", help="Logs of a serving engine to learn it from, each."),
    ] = None,
    given: Annotated[
        str, typer.Option(help="What those do not say: gpu=h100-sxm,gpus=1,engine=vllm.")
    ] = "",
    format_: Annotated[
        OutputFormat, typer.Option("--format", help="How to print.")
    ] = OutputFormat.TABLE,
) -> None:
    """Measure this machine's kernels, fit the model to them, and keep the result."""
    if results and logs:
        raise InputError(
            "--from and --from-log are learnt from one at a time", hint="leave one of them out"
        )
    if results or logs:
        if gpu or records:
            raise InputError(
                "--gpu and --records are of measuring, and files are learnt from",
                hint="leave them out; what the files do not say is told by --given gpu=…",
            )
        from roofline.cli.learn import learn

        learn(results or [], given, out, format_, logs=logs or [])
        return
    if given:
        raise InputError("--given is for results", hint="name their files with --from")
    seconds = duration(budget)
    with_threads(threads)
    from roofline.bench import campaign
    from roofline.bench.probe import probes

    with campaign.place(resolved(backend), gpu) as where:
        folder = records or campaign.folder_for(where)
        said(where.title)
        done = campaign.measure(where, probes(), seconds, folder, progress())
    try:
        found, notes, path = fitted(done.records, out)
    except InputError:
        for note in notes_of(done):
            said(wrap(note, "  "))
        raise
    report(found, [*notes_of(done), *notes], format_)
    said(f"measurements in {folder}")
    said(f"wrote {path}")


def resolved(backend: BackendName) -> str:
    """The backend; where that is left to us, says which it is and why."""
    if backend is not BackendName.AUTO:
        return backend.value
    from roofline.bench.campaign import chosen

    name, reason = chosen()
    said(f"backend {name}: {reason}")
    return name


def duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``3min`` or ``1h``.

    Raises:
        InputError: It is no time, or too short to measure anything.

    Examples:
        >>> duration("1.5min")
        90.0
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InputError(f"--budget {text!r:.60} is no time", hint="write it like 90s or 3min")
    seconds = float(found[1]) * _SECONDS[found[2] or ""]
    if seconds < _LEAST_BUDGET_S:
        raise InputError(
            f"nothing can be measured in {seconds:g} s", hint="give --budget at least 5s"
        )
    return seconds


def with_threads(count: int) -> None:
    """Have NumPy compute with so many threads; it reads that once, when it is loaded.

    Raises:
        InputError: Less than one, or NumPy is loaded with another number.
    """
    if count < 1:
        raise InputError(f"{count} threads cannot compute", hint="give --threads at least 1")
    if "numpy" in sys.modules:
        from roofline.bench.clock import threads

        if threads() != count:
            raise InputError(
                f"NumPy is loaded already, with {threads()} threads",
                hint=f"set {_THREADS[0]}={count} before Python starts",
            )
    for name in _THREADS:
        os.environ[name] = str(count)


def progress() -> "Callable[[int, int, PointTimes], None]":
    """Says on stderr how far it is: on one line of a terminal, now and then elsewhere."""
    every_s = 0.1 if sys.stderr.isatty() else _EVERY_S
    last = 0.0

    def show(index: int, total: int, measurement: "PointTimes") -> None:
        nonlocal last
        now = time.monotonic()
        if index < total and now - last < every_s:
            return
        last = now
        line = f"{index}/{total} {measurement.point.name}"
        print_progress(line, last=index >= total, logged=True)

    return show


def fitted(records: "Records", out: Path | None) -> "tuple[Profile, list[str], Path]":
    """Fit a run, write the calibration and read it back.

    Raises:
        InputError: Too little was measured to fit anything.
    """
    from roofline.bench.calibrating import fit_records
    from roofline.bench.calibrations import folders
    from roofline.bench.capacity import as_measured
    from roofline.bench.profile import profile, write
    from roofline.bench.profile_file import load
    from roofline.bench.published import of_run

    published = as_measured(of_run(records.header.environment), records)
    fits, notes = fit_records(records, published)
    if not fits:
        raise InputError(
            f"{len(records.rows)} points are too few to fit anything",
            hint="go on with them: roofline calibrate --records FOLDER, or give a larger --budget",
        )
    nominal = of_run(records.header.environment).machine.l2_bytes
    if (had := published.machine.l2_bytes) < nominal:
        notes.insert(
            0,
            f"This process gets {show_binary(had)} of the last-level cache of "
            f"{show_binary(nominal)}: reading more than that takes the time of memory.",
        )
    made = profile(records, fits, published)
    path = out or folders()[0] / f"{made.name}.yaml"
    write(made, path)
    return load(path), notes, path


def report(found: "Profile", notes: Sequence[str], style: OutputFormat) -> None:
    """Print what a calibration says, against the published figures."""
    changes = against(found)
    errors = [_errors(fitted) for fitted in found.fits.values()]
    if style is OutputFormat.JSON:
        result = {
            "name": found.name,
            "device": found.device,
            "digest": found.digest,
            "datasheet": found.source,
            "changes": changes,
            "kernels": errors,
        }
        print_json("calibrate", result, notes)
        return
    if style is OutputFormat.TABLE:
        device = found.environment.get("title") or found.environment.get("processor", found.device)
        echo(clean(f"{found.name}: {found.provider} on {device}\n"))
    header = ["kernel", "constant", "measured", f"of {found.source}", "what it is"]
    told = [c for c in changes if c["share"] or c["constant"] in _STARTS or not found.rates]
    rows = [[c["kernel"], c["constant"], c["measured"], c["share"], c["meaning"]] for c in told]
    print_rows(rows, header, style, "Against the published figures")
    header = ["kernel", "points", "median", "p90", "roofline", "interval holds"]
    percent = [
        [
            *(e["kernel"], str(e["points"])),
            *(f"{e[name]:.1%}" for name in ("median", "p90", "datasheet")),
            f"{e['inside']:.0%}",
        ]
        for e in errors
    ]
    print_rows(percent, header, style, "Errors on shapes that the fit did not see")
    if style is OutputFormat.TABLE:
        echo("roofline: the median error of published rates, on the same points.")
        for note in notes:
            said(wrap(note, "  "))


def against(found: "Profile") -> list[dict[str, Any]]:
    """Each fitted constant, as a share of the published rate where there is one."""
    from roofline.bench.forms import rate_of

    out = []
    for name, fitted in found.fits.items():
        machine = found.of(fitted.arithmetic)
        for constant in fitted.model.form.constants:
            value, unit = fitted.model.constants[constant.name], constant.unit
            whole, of = rate_of(constant, machine)
            if whole and unit == "1":  # a share: shown as the rate that it is
                value, unit = value * whole, of
            out.append(
                {
                    "kernel": name,
                    "constant": constant.name,
                    "value": value,
                    "unit": unit,
                    "measured": show(value, "" if unit == "1" else unit),
                    "share": f"{value / whole:.0%}" if whole else "",
                    "meaning": constant.meaning,
                }
            )
    return out


def _errors(fitted: "FittedProbe") -> dict[str, Any]:
    return {
        "kernel": fitted.probe,
        "points": fitted.model.rows,
        "median": fitted.errors.median,
        "p90": fitted.errors.p90,
        "datasheet": fitted.datasheet and fitted.datasheet.median,
        "inside": fitted.inside,
    }
