"""``sfumato ask``: a release from a service, where somebody else holds the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import print_lines, printed_json, ready_to_write
from sfumato.cli.exit_codes import plain_errors
from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError

KINDS = ("fit", "explanation", "search", "fabricate", "density", "curve", "moments")


def ask(
    dataset: Annotated[str, typer.Argument(help="Name of the data set at the service.")],
    service: Annotated[str, typer.Option(help="URL of the service.", envvar="SFUMATO_SERVICE")],
    epsilon: options.Epsilon,
    purpose: Annotated[str, typer.Option(help="What the release is for.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file to write: .sfumato, .parquet or .csv."),
    ],
    kind: Annotated[str, typer.Option(help=f"What to make: {', '.join(KINDS)}.")] = "fit",
    estimator: Annotated[str | None, typer.Option(help="Class of the model.")] = None,
    columns: Annotated[str, typer.Option(help="Columns of a density, separated by commas.")] = "",
    delta: Annotated[float | None, typer.Option(help="By default the budget's.")] = None,
    token: Annotated[
        str,
        typer.Option(help="Your token; the environment variable is safer.", envvar="SFUMATO_TOKEN"),
    ] = "",
    settings: options.Settings = None,
    tried: Annotated[
        list[str] | None,
        typer.Option(
            "--try", metavar="NAME=[VALUES]", help="For a search: values to try; may be repeated."
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what it would cost.")] = False,
    as_json: options.Json = False,
) -> None:
    """Ask a service for a release, wait for it, and write it to a file.

    Example: sfumato ask patients --service https://data.office.example --epsilon 1 --purpose triage
    -o model.sfumato
    """
    from sfumato.service.client import Client

    with plain_errors():
        if kind not in KINDS:
            raise InvalidInputError(f"'--kind' must be one of {', '.join(KINDS)}.")
        if not token:
            raise InvalidInputError("Set SFUMATO_TOKEN to your token.")
        ready_to_write(output, ".sfumato", ".parquet", ".csv")
        remote = Client(service, token).dataset(dataset)
        if plan:
            printed_json(remote.plan(epsilon, delta, kind))
            return
        asked = {
            "kind": kind,
            "estimator": estimator,
            "epsilon": epsilon,
            "delta": delta,
            "purpose": purpose,
            "parameters": options.settings_from(settings),
            "grid": options.settings_from(tried),
            "columns": list(options.names_from(columns)),
        }
        job = remote.submit(asked)
        files = job.wait()["files"]
        name = next((one for one in files if one.endswith(output.suffix)), None)
        if name is None:
            listed = ", ".join(files)
            raise InvalidInputError(f"The release {job.id} has no such file. It has: {listed}.")
        with atomic_write(output) as file:
            file.write(job.file(name))
        guarantee = job.guarantee()
    if as_json:
        printed_json({"job": job.id, "file": str(output), "guarantee": guarantee.to_dict()})
        return
    print_lines(f"Released: {output}", str(guarantee))
