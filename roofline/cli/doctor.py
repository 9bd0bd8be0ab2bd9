"""``roofline doctor``: what works here, and what to do about the rest."""

from typing import Annotated

import typer

from roofline import api
from roofline.cli import completing, options
from roofline.cli.render import OutputFormat, echo, print_json, print_rows
from roofline.errors import MissingEnvironmentError


def doctor(
    gpu: Annotated[
        str,
        typer.Option(
            help="GPU whose calibration is looked for; else the one that is here.",
            autocompletion=completing.gpus,
        ),
    ] = "",
    engine: options.Engine = "vllm",
    need: Annotated[
        list[str] | None,
        typer.Option(
            help="What has to be there: driver, gpu, cupy, calibration, own calibration, ray, home."
        ),
    ] = None,
    format_: options.FormatOf = OutputFormat.TABLE,
) -> None:
    """Check versions, extras, GPU, driver, CuPy, calibrations and folders.

    Exits with 3 if something that is needed is missing.
    """
    result = api.doctor(gpu, engine=engine, need=tuple(need or ()))
    checks, absent = result.tables["checks"], result.metadata["absent"]
    if format_ is OutputFormat.JSON:
        print_json("doctor", {"checks": list(checks.rows()), "absent": absent})
    else:
        rows = [[str(row[name]) for name in checks.columns] for row in checks.rows()]
        print_rows(rows, list(checks.columns), format_, whole=(True, True))
        if absent and format_ is OutputFormat.TABLE:
            echo(f"needed and not there: {', '.join(absent)}")
    if absent:
        raise typer.Exit(MissingEnvironmentError.exit_code)
