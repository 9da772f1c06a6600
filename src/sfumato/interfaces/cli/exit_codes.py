"""How a command ends when something is wrong: one line on standard error and a fixed code.

====  ==================================================================================
code  meaning
====  ==================================================================================
0     done
2     the command cannot be carried out as given, or its files cannot be used
3     refused: the budget is spent, the ledger does not hold, an audit refuted a promise
      or a certificate does not hold
130   interrupted with Ctrl-C; no output was written, what was charged stays charged
====  ==================================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from sfumato.exceptions import BudgetExceededError, LedgerTamperedError, SfumatoError

__all__ = ["INTERRUPTED", "REFUSED", "USER_ERROR", "leave", "plain_errors", "watch"]

USER_ERROR = 2
REFUSED = 3
INTERRUPTED = 130


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors into one line and an exit code, warnings into lines.

    A fault of Sfumato itself keeps its traceback.
    """
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
    except KeyboardInterrupt:
        leave(f"interrupted; no output was written. {_charged()}", INTERRUPTED)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            _say(f"warning: {warning.message}")


def watch(budget: Any) -> None:
    """Remember a budget as it is now, so that an interruption can say what was charged since."""
    _watched.append((budget, budget.statement().charges))


_watched: list[tuple[Any, int]] = []


def _charged() -> str:
    """Say what a run has charged before it was interrupted; it stays charged."""
    told = []
    for budget, before in _watched:
        past = [each for each in budget.history() if each.position > before]
        told += [f"'{budget.name}' was charged epsilon {each.epsilon:.4g}" for each in past]
    if not told:
        return "Nothing was charged." if _watched else "What was charged stays charged."
    return f"What was charged stays charged: {'; '.join(told)}."


def leave(error: SfumatoError | str, code: int) -> NoReturn:
    """End the command with one line on standard error."""
    _say(str(error))
    raise typer.Exit(code) from None


def _say(text: str) -> None:
    typer.echo(f"sfumato: {' '.join(text.split())}", err=True)
