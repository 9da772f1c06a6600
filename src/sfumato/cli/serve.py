"""``sfumato serve`` and ``sfumato studio``: the service of a team, and the pages for one person."""

from __future__ import annotations

import os
import re
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import print_lines
from sfumato.exceptions import InvalidInputError

NEEDED = ("cryptography", "fastapi", "itsdangerous", "multipart", "prometheus_client", "uvicorn")

serve_app = typer.Typer(
    add_completion=False,
    help="Serve the data sets of 'service.toml' to a team under one budget.\n\n"
    "Example: sfumato serve --config service.toml",
)


def _settings(file: Path | None, declared: dict[str, Any] | None = None) -> Any:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InvalidInputError(
            f"The service needs the packages {', '.join(missing)}: pip install 'sfumato[service]'."
        )
    from sfumato.service.config import Config, Settings

    return Settings(file, None if declared is None else Config.model_validate(declared))


@serve_app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    config: Annotated[
        Path, typer.Option("--config", "-c", help="People, data sets and limits.")
    ] = Path("service.toml"),
    part: Annotated[
        str, typer.Option(help="Run only 'web' or 'workers', for two users of the machine.")
    ] = "",
) -> None:
    """Serve the data sets of 'service.toml' to a team under one budget.

    Example: sfumato serve --config service.toml
    """
    context.obj = config
    if context.invoked_subcommand is not None:
        return
    settings = _settings(config)
    from sfumato.service.serving import serve_parts

    if part not in ("", "web", "workers"):
        raise InvalidInputError("'--part' must be 'web' or 'workers'.")
    line = "Sfumato serves at {}. Stop with Ctrl-C."
    serve_parts(settings, lambda address: print_lines(line.format(address)), part)


@serve_app.command()
def token(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A person of 'service.toml'.")],
    scope: Annotated[str, typer.Option(help="'read' or 'write'.")] = "write",
    days: Annotated[float, typer.Option(help="Days until it expires.", min=0.0, max=366)] = 30.0,
) -> None:
    """Make a token for a person and print it, once; only its hash is stored.

    Example: sfumato serve token ada --scope read
    """
    from sfumato.service.access import make_token

    if scope not in ("read", "write"):
        raise InvalidInputError("'--scope' must be 'read' or 'write'.")
    settings = _settings(context.obj)
    print_lines(make_token(settings, _store(settings), name, scope, days))


@serve_app.command()
def revoke(
    context: typer.Context, identity: Annotated[str, typer.Argument(help="The ID of a token.")]
) -> None:
    """Revoke a token: it and its sessions end at their next request.

    Example: sfumato serve revoke 0123456789ab
    """
    store = _store(_settings(context.obj))
    store.change("operator", "token", identity, "revoke token", state="revoked")
    print_lines(f"The token {identity} is revoked.")


def _store(settings: Any) -> Any:
    from sfumato.service.store import Store

    store = Store(settings.store_address)
    store.prepare()
    return store


def studio(
    table: Annotated[Path, typer.Argument(help="The table: CSV, Parquet or a workbook.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    epsilon: Annotated[float, typer.Option(help="The total epsilon that the page proposes.")] = 3.0,
    delta: Annotated[float, typer.Option(help="Well below 1 / number of rows.")] = 1e-6,
    state: Annotated[
        Path | None,
        typer.Option(help="Folder of ledger and releases; by default next to the table."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Explore a budget on your own machine: bounds, previews, fits, fabricated rows, reports.

    Example: sfumato studio patients.csv
    """
    if not table.is_file():
        raise InvalidInputError(f"There is no table '{table}'.")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", table.stem).strip("-")[:60] or "table"
    folder = (state or table.with_name(f"{table.stem}-studio")).resolve()
    path = str(table.resolve())
    about = {"path": path, "target": target, "epsilon": epsilon, "delta": delta}
    limits = {"state": str(folder), "port": port, "requests_per_second": 1000}
    people = {"you": {"role": "owner"}}
    declared = {"service": limits, "people": people, "datasets": {name: about}}
    settings = _settings(None, declared)
    from sfumato.service.access import make_token
    from sfumato.service.serving import serve_parts

    store = _store(settings)
    for one in store.find("token", None, state="good"):  # links of earlier runs
        store.change("operator", "token", one["id"], "revoke token", state="revoked")
    text = make_token(settings, store, "you", "write", 7)
    store.close()

    def ready(address: str) -> None:
        link = f"{address}/sign-in?token={text}"
        print_lines(
            f"The studio of {table} is at", link, "Only this link opens it. Stop with Ctrl-C."
        )
        if browser:  # by a file of the user's own: a command line can be read by every user
            page = folder / "open.html"
            page.unlink(missing_ok=True)
            with open(page, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
                out.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={link}">')
            webbrowser.open(page.as_uri())

    serve_parts(settings, ready)
