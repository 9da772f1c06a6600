"""What the commands share on the terminal: results on standard output, all else on standard error.

Progress is a bar on a terminal and a plain line elsewhere. Nothing but the result, a text or JSON,
ever goes to standard output, so that it can be piped.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sfumato.cli.exit_codes import expect
from sfumato.exceptions import FileNotWrittenError, InvalidInputError

MIN_SPACE = 2**24  # bytes that must be free where something is to be written


def printed_json(record: Any) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(record, indent=2, ensure_ascii=False))


def print_lines(*lines: str) -> None:
    """Print lines of the result."""
    for line in lines:
        typer.echo(line)


def remark(line: str) -> None:
    """Print a line that is not part of the result."""
    typer.echo(line, err=True)


def console_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the last column is the one that folds."""
    table = Table(box=SIMPLE_HEAD)
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title != titles[-1])
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console = Console()
    # A file or a pipe has no width: nothing is folded there.
    Console(width=None if console.is_terminal else 200).print(table)


@contextmanager
def progress_bar(doing: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show how far a task is; gives a function that is told each step."""
    console = Console(stderr=True)
    if not console.is_terminal:
        remark(f"{doing} ...")
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(doing, total=total)
        yield lambda step: progress.advance(task, step)


def ready_to_write(path: Path, *suffixes: str) -> None:
    """Refuse an output that could not be written, before anything is charged or computed."""
    if suffixes and path.suffix.lower() not in suffixes:
        listed = ", ".join(suffixes)
        raise InvalidInputError(f"The output '{path}' must end in {listed}.")
    folder = path.parent
    if path.is_dir() or not folder.is_dir():
        raise InvalidInputError(
            f"The output must be a file in a folder that exists. Got '{path}' instead."
        )
    expect(path)
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise InvalidInputError(
            f"The folder '{folder}' of the output cannot be written to: {error.strerror}."
        ) from None
    if free < MIN_SPACE:
        raise InvalidInputError(
            f"The disk of '{folder}' has {free / 1e6:.1f} MB free, and {MIN_SPACE / 1e6:.0f} MB "
            "are required before anything is charged. Free some space or choose another "
            "folder."
        )


def write_or_rescue(write: Callable[[Path], Any], path: Path) -> Any:
    """Write what was paid for, elsewhere if its own place fails: it cannot be drawn again.

    A released file may lie anywhere, because all that is in it is released.
    """
    try:
        return write(path)
    except FileNotWrittenError as error:
        for folder in (Path.home(), Path(tempfile.gettempdir()), Path.cwd()):
            elsewhere = folder / f"rescued-{path.name}"
            if elsewhere.exists():
                continue
            try:
                write(elsewhere)
            except (FileNotWrittenError, InvalidInputError):
                continue
            raise FileNotWrittenError(
                f"{error} What was paid for is not lost: it is in '{elsewhere}'. Move it."
            ) from None
        raise
