"""Constants of an engine learnt from what other tools measured of it."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.api.measured import read
from roofline.api.measured_rows import check, completed, row
from roofline.bench.end_to_end import cases, profiles
from roofline.bench.end_to_end.held_out import DEVIATIONS
from roofline.bench.end_to_end.learning import LearntConstants, learn
from roofline.bench.end_to_end.logged import BEYOND, OCTAVE, LearntLog, LoggedSteps, cells_of
from roofline.bench.end_to_end.logged import learn_log as learn_steps
from roofline.bench.end_to_end.predicting import prepared
from roofline.bench.end_to_end.profiles import ProfileEvidence
from roofline.bench.engine_profiles import name_of
from roofline.content import home
from roofline.errors import InputError
from roofline.hardware.engine import engine as engine_named
from roofline.interop.engine_logs import EngineLog, read_logs
from roofline.interop.results import RunOptions
from roofline.records import replace
from roofline.table import Result, Table, table
from roofline.units import show

if TYPE_CHECKING:
    from roofline.bench.end_to_end.replay import PreparedRow

FOLDER: Final = "engines"
"""Place of learnt profiles, in the folder for what the user has measured."""


def learn_engine(
    files: str | Path | Sequence[str | Path],
    *,
    format_: str = "",
    given: RunOptions | None = None,
    out: str | Path | None = None,
) -> Result:
    """Refit an engine's constants to your own runs, with the error on runs left out.

    Args:
        files, format_: As for `roofline.api.compare_measured`.
        given: What the files do not say.
        out: File of the new profile; else one in the folder for your own. It is written only where
            runs that were left out are predicted better by it than by the shipped one.

    Returns:
        Result: Tables ``constants`` and ``errors``; the file is in the metadata, empty if none was
            written.

    Raises:
        RooflineError: A file cannot be read, or there are too few runs, or of several engines.
    """
    listed = [files] if isinstance(files, str | Path) else list(files)
    runs = read(listed, format_, given or RunOptions())
    able = [run for run in runs if not run.scenario.beyond]
    rows, left_out = _priced([row(run) for run in able])
    if not rows:
        why = left_out[0] if left_out else "no prediction knows what they ran"
        raise InputError(
            f"none of {len(runs):,} runs can be learnt from: {why}",
            hint="roofline compare-measured says it of each",
        )
    found = learn(rows)
    path = _written(found, rows, Path(out) if out else None) if found.better else None
    return Result(
        "calibrate",
        {"constants": _table(found.moved, CONSTANTS), "errors": _table(found.scores, ERRORS)},
        notes=tuple(_notes(found, len(runs) - len(rows))),
        metadata={
            "engine": found.engine.profile,
            "runs": found.runs,
            "deployments": found.deployments,
            "left out": found.apart,
            "better": found.better,
            "file": "" if path is None else str(path),
        },
    )


def learn_log(
    files: str | Path | Sequence[str | Path],
    *,
    given: RunOptions | None = None,
    out: str | Path | None = None,
) -> Result:
    """Refit an engine's constants to the steps that its own log tells of.

    Args:
        files: Logs of one deployment: what vLLM, SGLang or TensorRT-LLM print while they serve, or
            scrapes of the metrics of the first two; ``.gz`` is unpacked.
        given: Network, devices and layout, which no log says; mean lengths where they are known.
        out: File of the new profile; else one in the folder for your own. It is written only where
            loads that were left out are predicted better by it than by the shipped one.

    Returns:
        Result: Tables ``constants``, ``errors`` and ``logged`` (steps by octave of the batch); the
            file is in the metadata, empty if none was written.

    Raises:
        RooflineError: A file cannot be read, no line tells of a step, or too few loads were logged.
    """
    listed = [files] if isinstance(files, str | Path) else list(files)
    log = read_logs([Path(file) for file in listed])
    said = given or RunOptions()
    known = _logged_by(log, said)
    lengths = {"prompt": said.prompt or 0.0, "output": said.output or 0.0}
    steps = LoggedSteps(known, cells_of(log.steps, known, log.capacity, **lengths))
    found = learn_steps(steps)
    path = None
    if found.learnt.better:
        name = name_of(known.deployment)
        path = profiles.write(
            found.learnt.engine.profile,
            found.learnt.logs,
            found.learnt.sd,
            ProfileEvidence(
                found.learnt.runs,
                hashlib.sha256(repr(steps.cells).encode()).hexdigest()[:16],
                f"{found.learnt.runs:,} steps of your own log, shrunk towards the shipped profile",
                (),
                found.learnt.spreads,
                replace(found.logged, deployment=name),
            ),
            Path(out) if out else home() / FOLDER / f"{found.learnt.engine.profile}-log.yaml",
        )
    return Result(
        "calibrate",
        {
            "constants": _table(found.learnt.moved, CONSTANTS),
            "errors": _table(found.learnt.scores, ERRORS),
            "logged": logged_table(found),
        },
        notes=tuple(_log_notes(log, found)),
        metadata={
            "engine": found.learnt.engine.profile,
            "runs": found.learnt.runs,
            "deployments": 1,
            "left out": found.learnt.apart,
            "better": found.learnt.better,
            "file": "" if path is None else str(path),
        },
    )


ANY_LENGTHS: Final = (512.0, 128.0)
"""Prompt and answer of a server whose own nobody tells; they move no step. Assumed. [token]"""


def _logged_by(log: EngineLog, given: RunOptions) -> "PreparedRow":
    """Deployment that wrote a log, as a row of measurements."""
    from roofline.interop.results import MeasuredFigure, MeasuredRun, RunScenario

    check(given)
    if given.engine and not engine_named(given.engine).name.startswith(log.engine):
        raise InputError(
            f"{log.source} has {log.title}, and is said to be of {given.engine}",
            hint="leave engine out of `given`",
        )
    told = RunScenario(
        engine=log.engine,
        load="closed",
        concurrency=max(int(max(each.running for each in log.steps)), 1),
        prompt=ANY_LENGTHS[0],
        output=ANY_LENGTHS[1],
    )
    step = MeasuredFigure("tpot", "mean", log.steps[0].seconds, "log", "time of a step")
    run = MeasuredRun(log.title, log.source, told, (step,), format="log")
    run = replace(run, scenario=completed(run, replace(given, concurrency=None, rate=None)))
    rows, why = _priced([row(run)])
    if not rows:
        raise InputError(
            f"the deployment of {log.source} cannot be priced: {why[0]}",
            hint="say what served: `given` model=…,gpu=…,gpus=…",
        )
    if rows[0].row.case.layout.pp > 1 and log.engine in ("trtllm", "sglang"):
        raise InputError(
            "iterations of a pipeline are logged one for each of its batches, and not as rounds",
            hint="learn from runs: roofline calibrate --from",
        )
    return rows[0]


def logged_table(found: LearntLog) -> Table:
    """Logged steps by octave of the batch: what was in them, and how far predictions are off."""
    cells = found.steps.cells
    octave = np.array([round(np.log2(each.load.batch)) for each in cells])
    rows = []
    for one in np.unique(octave):
        mine = np.flatnonzero(octave == one)
        some = [cells[place] for place in mine]
        weights = np.array([each.steps for each in some])
        batch, context, seconds = (
            float(np.average(values, weights=weights))
            for values in (
                [each.load.batch for each in some],
                [each.load.context for each in some],
                [each.seconds for each in some],
            )
        )
        shipped, held = (
            float(np.median(np.expm1(each[mine]))) for each in (found.shipped, found.held)
        )
        rows.append(
            {
                "batch": batch,
                "context": context,
                "steps": int(weights.sum()),
                "logged": seconds,
                "shipped": shipped,
                "held out": held,
            }
        )
    return table(rows, {"batch": "", "context": "token", "logged": "s"})


def _log_notes(log: EngineLog, found: LearntLog) -> list[str]:
    learnt, known = found.learnt, found.steps.known
    gain, step, sequence = (
        next(each for each in learnt.moved if each.name == name)
        for name in ("decode_gain", "step_s", "sequence_s")
    )
    (few, many), (short, long) = found.logged.batch, found.logged.context
    out = [
        f"{log.title[:1].upper()}{log.title[1:]}, {log.account}",
        f"Kernels of decoding take {gain.after / gain.before:.3g} times what is shipped, a step "
        f"{_signed(step.after - step.before)}, a sequence of it "
        f"{_signed(sequence.after - sequence.before)}.",
        f"Logged: {few:,.0f} to {many:,.0f} sequences of {short:,.0f} to {long:,.0f} tokens, which "
        f"are predicted within ± {100 * np.expm1(DEVIATIONS * found.logged.log_sd):.0f} %, four of "
        f"five times; an octave beyond, within ± {100 * np.expm1(DEVIATIONS * BEYOND):.0f} % at "
        "least.",
    ]
    if log.capacity != log.capacity and any(each.usage == each.usage for each in log.steps):
        tokens = known.server.kv_tokens / known.deployment.layout.dp
        out.append(
            f"The log does not say how large the cache is: {tokens:,.0f} tokens, as predicted."
        )
    if learnt.apart != OCTAVE:
        out.append(
            "The log has hardly more than one load: what a step, a sequence and kernels take "
            "cannot be told apart by it."
        )
    if not learnt.better:
        out.append(
            f"Steps left out (one {learnt.apart} at a time) are predicted no better than by the "
            "shipped profile, which stays."
        )
    return out


def _signed(seconds: float) -> str:
    sign = "−" if seconds < 0 else "+"
    return f"{sign}{show(abs(seconds), 's')}"


def _priced(records: "Sequence[dict[str, object]]") -> "tuple[list[PreparedRow], list[str]]":
    import pandas as pd

    if not records:
        return [], []
    rows, unread = cases.read(pd.DataFrame(list(records)))
    found, unpriced = prepared(rows)
    return found, [each.why for each in (*unread, *unpriced)]


def _written(found: LearntConstants, rows: "Sequence[PreparedRow]", out: Path | None) -> Path:
    digest = hashlib.sha256()
    for each in rows:
        one = each.row
        digest.update(repr((one.case, one.mode, one.batch, sorted(one.measured.items()))).encode())
    path = out or home() / FOLDER / f"{found.engine.profile}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    told = ProfileEvidence(
        found.runs,
        digest.hexdigest()[:16],
        f"{found.runs} runs of your own, shrunk towards the shipped profile",
        (),
        found.spreads,
    )
    return profiles.write(found.engine.profile, found.logs, found.sd, told, path)


CONSTANTS: Final = {
    "constant": "name",
    "unit": "unit",
    "shipped": "before",
    "learnt": "after",
    "low": "low",
    "high": "high",
    "told by the runs": "learnt",
    "meaning": "meaning",
}
ERRORS: Final = {
    "metric": "metric",
    "figures": "figures",
    "shipped": "shipped",
    "held out": "held",
    "fitted": "fitted",
}
"""Attributes of what was learnt by the columns that have them."""


def _table(records: Sequence[object], columns: Mapping[str, str]) -> Table:
    rows = [{name: getattr(each, field) for name, field in columns.items()} for each in records]
    return table(rows, {})


FEW: Final = 0.5
"""Share that runs tell of the constants below which they are few. [1]"""


def _notes(found: LearntConstants, refused: int) -> list[str]:
    mean = sum(each.learnt for each in found.moved) / len(found.moved)
    out = []
    if mean < FEW:
        out.append(
            f"The {found.runs} runs tell {100 * mean:.0f} % of what is not known of the constants: "
            "the rest is shrunk towards the shipped profile."
        )
    if found.deployments == 1:
        out.append(
            "All runs are of one deployment: the constants take what is particular to it, and may "
            "not hold for another."
        )
    if not found.better:
        out.append(
            f"Runs left out (one {found.apart} at a time) are predicted no better than by the "
            "shipped profile, which stays."
        )
    if refused:
        out.append(f"{refused} runs cannot be predicted and were left out.")
    return out
