"""How a command ends when something is wrong: one line on standard error and a fixed code.

====  ==================================================================================
code  meaning
====  ==================================================================================
0     done
2     the command cannot be carried out as given, or its files cannot be used
3     refused: the budget is spent, the ledger does not hold, or an audit refuted a promise
130   interrupted with Ctrl-C; no output was written, what was charged stays charged
====  ==================================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from sfumato.exceptions import BudgetExceededError, LedgerTamperedError, SfumatoError

__all__ = ["INTERRUPTED", "REFUSED", "USER_ERROR", "plain_errors"]

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
        _leave(error, REFUSED)
    except SfumatoError as error:
        _leave(error, USER_ERROR)
    except OSError as error:
        place = f"'{error.filename}'" if error.filename else "A file"
        _leave(f"{place} cannot be used: {error.strerror or type(error).__name__}.", USER_ERROR)
    except KeyboardInterrupt:
        _leave("interrupted; no output was written. What was charged stays charged.", INTERRUPTED)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            _say(f"warning: {warning.message}")


def _leave(error: SfumatoError | str, code: int) -> None:
    _say(str(error))
    raise typer.Exit(code) from None


def _say(text: str) -> None:
    typer.echo(f"sfumato: {' '.join(text.split())}", err=True)
