"""What the commands share on the terminal: results on standard output, all else on standard error.

Nothing but the result, a text or JSON, ever goes to standard output, so that it can be piped. An
error is one line and a fixed code, of which `sfumato --help` tells.
"""

from __future__ import annotations

import errno
import json
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sfumato.exceptions import (
    BudgetExceededError,
    FileNotWrittenError,
    InvalidInputError,
    LedgerTamperedError,
    SfumatoError,
)

USER_ERROR, REFUSED, NOT_CHECKED, INTERRUPTED = 2, 3, 4, 130
MIN_SPACE = 2**24  # bytes that must be free where something is to be written
# Under these names a run notes what an interruption must say (budgets and how many charges they
# had, outputs and when each was written before) and what was asked for.
BUDGETS, OUTPUTS, FORCED, ASKED = "budgets", "outputs", "forced", "asked"
RUN: ContextVar[dict[str, Any] | None] = ContextVar("RUN", default=None)


def print_json(record: Any) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(record, indent=2, ensure_ascii=False))


def print_lines(*lines: str) -> None:
    """Print lines of the result."""
    for line in lines:
        typer.echo(line)


def remark(line: str) -> None:
    """Print a line that is not part of the result."""
    typer.echo(line, err=True)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the last column is the one that folds."""
    table = Table(box=SIMPLE_HEAD)
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title != titles[-1])
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console = Console()
    # A file or a pipe has no width: nothing is folded there.
    Console(width=None if console.is_terminal else 200).print(table)


def progress_bar(doing: str) -> Any:
    """Return a context in which a terminal shows that a task is under way."""
    return Console(stderr=True).status(doing)


# How a command ends -----------------------------------------------------------------------------


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors into one line and an exit code, warnings into lines.

    A fault of Sfumato itself keeps its traceback.
    """
    # From here on Ctrl-C is an exception; before, it ended the process at once.
    if callable(signal.getsignal(signal.SIGINT)) and current_thread() is main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    caught: list[warnings.WarningMessage] = []

    def say_warnings() -> None:
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                remark(f"sfumato: warning: {' '.join(str(warning.message).split())}")

    token = RUN.set({})
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
    except typer.Exit:
        say_warnings()
        raise
    except (BudgetExceededError, LedgerTamperedError) as error:
        leave(error, REFUSED)
    except SfumatoError as error:
        leave(error, USER_ERROR)
    except OSError as error:
        if error.errno == errno.EPIPE:  # of a pipe without a reader
            raise
        place = f"'{error.filename}'" if error.filename else "A file"
        leave(f"{place} cannot be used: {error.strerror or type(error).__name__}.", USER_ERROR)
    except KeyboardInterrupt:
        charged = []
        for budget, before in _noted(BUDGETS, []):
            past = [each for each in budget.history() if each.position > before]
            charged += [f"'{budget.name}' was charged epsilon {each.epsilon:.4g}" for each in past]
        outputs = _noted(OUTPUTS, {})
        written = [str(path) for path, before in outputs.items() if _written_at(path) != before]
        told = f"What was charged stays charged: {'; '.join(charged)}."
        made = f"Written: {', '.join(written)}." if written else "No output was written."
        leave(f"interrupted. {told if charged else 'Nothing was charged.'} {made}", INTERRUPTED)
    finally:
        RUN.reset(token)
    say_warnings()


def leave(error: SfumatoError | str, code: int) -> NoReturn:
    """End the command with one line on standard error."""
    remark(f"sfumato: {' '.join(str(error).split())}")
    raise typer.Exit(code) from None


def _noted(name: str, default: Any) -> Any:
    """Return what this run has noted under a name."""
    noted = RUN.get()
    return default if noted is None else noted.setdefault(name, default)


def _written_at(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def watch(budget: Any) -> None:
    """Remember a budget as it is now, so that an interruption can say what was charged since."""
    _noted(BUDGETS, []).append((budget, budget.statement().charges))


def allow_replacing(context: typer.Context, wanted: bool) -> None:
    """Take note of --force, and of the other parameters of a command that writes a file."""
    _noted(FORCED, []).append(wanted)
    _noted(ASKED, context.params)


def expect(output: Path) -> None:
    """Note an output before it is written; refuse an input, and to replace one without --force."""
    values = list(_noted(ASKED, {}).values())
    n_named = 0
    for value in (each for v in values for each in (v if isinstance(v, list | tuple) else [v])):
        with suppress(OSError, ValueError):
            n_named += isinstance(value, str | Path) and Path(value).samefile(output)
    if n_named > 1:
        raise InvalidInputError(f"The output '{output}' is also an input. Choose another name.")
    if output.exists() and not any(_noted(FORCED, [])):
        raise InvalidInputError(
            f"The output '{output}' exists. Choose another name, or replace it with '--force'."
        )
    _noted(OUTPUTS, {})[output] = _written_at(output)


def ready_to_write(path: Path | None, *suffixes: str) -> None:
    """Refuse an output that could not be written, before anything is charged or computed."""
    if path is None:
        return
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
            "are required before anything is charged. Free some space or choose another folder."
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
                f"{error} The release is not lost: it is in '{elsewhere}'. Move it to a safe place."
            ) from None
        raise
