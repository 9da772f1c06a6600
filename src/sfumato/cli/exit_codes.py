"""How a command ends when something is wrong: one line on standard error and a fixed code.

====  ==================================================================================
code  meaning
====  ==================================================================================
0     done
2     the command cannot be carried out as given, or its files cannot be used
3     refused: the budget is spent, a ledger's integrity check failed, an audit refuted
      a promise or a certificate is not valid
130   interrupted with Ctrl-C; says what was charged, which stays charged, and what exists
====  ==================================================================================
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, NoReturn

import typer

from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerTamperedError,
    SfumatoError,
)

USER_ERROR = 2
REFUSED = 3
INTERRUPTED = 130


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors into one line and an exit code, warnings into lines.

    A fault of Sfumato itself keeps its traceback.
    """
    _listen_to_interrupts()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
    except (BudgetExceededError, LedgerTamperedError) as error:
        leave(error, REFUSED)
    except SfumatoError as error:
        leave(error, USER_ERROR)
    except OSError as error:
        place = f"'{error.filename}'" if error.filename else "A file"
        leave(f"{place} cannot be used: {error.strerror or type(error).__name__}.", USER_ERROR)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            _say(f"warning: {warning.message}")


def _listen_to_interrupts() -> None:
    """From here on Ctrl-C is an exception; before, it ended the process at once."""
    if callable(signal.getsignal(signal.SIGINT)) and current_thread() is main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


# What an interruption must say: budgets and how many charges they had, outputs and what was there.
_budgets: list[tuple[Any, int]] = []
_outputs: dict[Path, int | None] = {}
_forced: list[bool] = []
_given: list[Any] = []  # what the parameters of the command were set to


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Turn Ctrl-C into one line: what was charged, and what exists."""
    _budgets.clear()
    _outputs.clear()
    _forced.clear()
    _given.clear()
    try:
        yield
    except KeyboardInterrupt:
        leave(f"interrupted. {_charged()} {_existing()}", INTERRUPTED)


def watch(budget: Any) -> None:
    """Remember a budget as it is now, so that an interruption can say what was charged since."""
    _budgets.append((budget, budget.statement().charges))


def allow_replacing(wanted: bool) -> None:
    """Take note of --force."""
    _forced.append(wanted)


def note_parameters(values: Iterable[Any]) -> None:
    """Remember what a command was given, so that none of its inputs is replaced."""
    _given.extend(values)


def expect(output: Path) -> None:
    """Remember an output before it is written; refuse to replace one unless --force was given.

    An interruption says whether it was written.
    """
    if _is_read(output):
        raise InvalidInputError(f"The output '{output}' is also an input. Choose another name.")
    if output.exists() and not any(_forced):
        raise InvalidInputError(
            f"The output '{output}' exists. Choose another name, or replace it with '--force'."
        )
    _outputs[output] = _written_at(output)


def _is_read(output: Path) -> bool:
    """Whether the command was given this file a second time: as what it reads."""
    values = [each for value in _given for each in (value if _is_many(value) else [value])]
    files = [Path(each) for each in values if isinstance(each, str | Path)]
    return sum(_is_same(file, output) for file in files) > 1


def _is_many(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_same(file: Path, other: Path) -> bool:
    try:
        return file.samefile(other)
    except (OSError, ValueError):
        return False


def _written_at(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def _charged() -> str:
    """Return what a run has charged before it was interrupted; it stays charged."""
    told = []
    for budget, before in _budgets:
        past = [each for each in budget.history() if each.position > before]
        told += [f"'{budget.name}' was charged epsilon {each.epsilon:.4g}" for each in past]
    if not told:
        return "Nothing was charged."
    return f"What was charged stays charged: {'; '.join(told)}."


def _existing() -> str:
    """Return which outputs were written."""
    written = [str(path) for path, before in _outputs.items() if _written_at(path) != before]
    return f"Written: {', '.join(written)}." if written else "No output was written."


def leave(error: SfumatoError | str, code: int) -> NoReturn:
    """End the command with one line on standard error."""
    _say(str(error))
    raise typer.Exit(code) from None


def _say(text: str) -> None:
    typer.echo(f"sfumato: {' '.join(text.split())}", err=True)
