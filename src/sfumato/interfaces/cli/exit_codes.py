"""How a command ends when something is wrong: one line on standard error and a fixed code.

====  ===========================================================================
code  meaning
====  ===========================================================================
0     done
2     the command cannot be carried out as given, or its files cannot be used
3     refused: the budget is spent, or the ledger does not hold
====  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from sfumato.exceptions import BudgetExceededError, LedgerTamperedError, SfumatoError

__all__ = ["REFUSED", "USER_ERROR", "plain_errors"]

USER_ERROR = 2
REFUSED = 3


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn Sfumato's errors into one line and an exit code; a real fault keeps its traceback."""
    try:
        yield
    except (BudgetExceededError, LedgerTamperedError) as error:
        _leave(error, REFUSED)
    except SfumatoError as error:
        _leave(error, USER_ERROR)


def _leave(error: SfumatoError, code: int) -> None:
    typer.echo(f"sfumato: {' '.join(str(error).split())}", err=True)
    raise typer.Exit(code) from None
