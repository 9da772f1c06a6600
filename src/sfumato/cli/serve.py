"""``sfumato serve``: the service and its pages, in one command."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.console import print_lines
from sfumato.exceptions import InvalidInputError

NEEDED = ("cryptography", "fastapi", "jinja2", "multipart", "uvicorn")


def serve(
    data: Annotated[Path, typer.Argument(help="Folder of the tables that may be registered.")],
    state: Annotated[
        Path, typer.Option(help="Folder of ledger, store and releases; created if missing.")
    ] = Path("sfumato-service"),
    database: Annotated[
        str | None,
        typer.Option(
            help="URL of PostgreSQL for ledger and store.", envvar="SFUMATO_SERVICE_DATABASE"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8765,
    certificate: Annotated[
        Path | None, typer.Option(help="TLS certificate (PEM); with '--key'.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="TLS key (PEM).")] = None,
    behind_proxy: Annotated[
        bool, typer.Option(help="A proxy in front handles HTTPS: cookies are restricted to HTTPS.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Jobs that run at once.", min=1, max=64)] = 2,
    memory: Annotated[int, typer.Option(help="Megabytes per job.", min=512)] = 4096,
    seconds: Annotated[int, typer.Option(help="Seconds per job.", min=1)] = 3600,
    show_every: Annotated[
        int, typer.Option(help="Show results only at multiples of this many seconds.", min=0)
    ] = 0,
    heads: Annotated[
        Path | None,
        typer.Option(help="An earlier signed statement: refuse a ledger that has lost charges."),
    ] = None,
    databases: Annotated[
        Path | None,
        typer.Option(help="TOML file of databases whose tables may be registered: NAME = URL."),
    ] = None,
    part: Annotated[
        str, typer.Option(help="Run only 'web' or 'workers', for two users of the machine.")
    ] = "",
) -> None:
    """Serve data sets to analysts under one budget, through an API and web pages.

    A start prints a link with which an officer signs in, once, where none has a valid token.

    Example: sfumato serve tables/ --state office/
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InvalidInputError(
            f"'sfumato serve' needs the packages {', '.join(missing)}: "
            "pip install 'sfumato[service]'."
        )
    from sfumato.ledger.ledger import Ledger
    from sfumato.service.serving import PARTS, first_link, serve_parts
    from sfumato.service.settings import Settings

    if part not in ("", *PARTS):
        raise InvalidInputError("'--part' must be 'web' or 'workers'.")
    if (certificate is None) != (key is None):
        raise InvalidInputError("TLS needs '--certificate' and '--key'.")
    settings = Settings(
        state=state.resolve(),
        data=data.resolve(),
        database=database,
        workers=workers,
        memory=memory,
        seconds=seconds,
        show_every=show_every,
        databases=None if databases is None else str(databases.resolve()),
        secure_cookies=behind_proxy or certificate is not None,
    ).prepared()
    address = f"{'http' if certificate is None else 'https'}://{host}:{port}"
    if heads is not None:  # compare the ledger with a statement that was kept elsewhere
        try:
            noted = json.loads(heads.read_text())["heads"]
        except (ValueError, KeyError, TypeError):
            raise InvalidInputError(f"'{heads}' is not a statement of this service.") from None
        Ledger(settings.ledger_address).verify(noted)
    link = None if part == "workers" else first_link(settings, address)
    print_lines(f"Sfumato serves at {address}. Stop with Ctrl-C.")
    if link is not None:
        print_lines(f"Sign-in link of an officer, valid once and for an hour: {link}")
    options = {
        "host": host,
        "port": port,
        "certificate": None if certificate is None else str(certificate),
        "key": None if key is None else str(key),
    }
    serve_parts(settings, options, (part,) if part else PARTS)
