"""``sfumato migrate``: files of version 0.1.0 in the form of today."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.interfaces.cli.console import print_lines, printed_json
from sfumato.interfaces.cli.exit_codes import plain_errors
from sfumato.interfaces.cli.options import Json
from sfumato.jobs.migrating import Migration, migrate_file

__all__ = ["migrate"]


def migrate(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Models, bounds, ledgers or stores of functions."),
    ],
    as_json: Json = False,
) -> None:
    """Convert files of version 0.1.0 to the current format, and check every chain.

    The old copy of a rewritten file is kept as FILE.before-migration. Ledgers and stores are
    checked and never rewritten, so that every charge keeps its price.

    Example: sfumato migrate model.sfumato bounds.toml budget.db
    """
    done: list[Migration] = []
    for file in files:
        with plain_errors():
            done.append(migrate_file(file))
        if not as_json:
            print_lines(_sentence(done[-1]), *(f"  {fact}" for fact in done[-1].facts))
    if as_json:
        printed_json([each.to_dict() for each in done])


def _sentence(done: Migration) -> str:
    if done.changed:
        return f"{done.path}: {done.kind}, rewritten; the old file is {done.backup}."
    return f"{done.path}: {done.kind}, read as it is; nothing was changed."
