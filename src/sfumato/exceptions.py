"""Every error that Sfumato raises on purpose: all of them are a `SfumatoError`.

No message ever holds a value of a data row.
"""

from __future__ import annotations

from functools import partial
from typing import Any


class SfumatoError(Exception):
    """Root of all errors raised on purpose by Sfumato."""


class InvalidInputError(SfumatoError, ValueError):
    """An argument has a value, shape or type that cannot be used."""


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has a type that cannot be used."""


class MissingBoundsError(InvalidInputError):
    """A public bound is needed and was not given; it is never learned from data."""


class UnsupportedModeError(InvalidInputError):
    """The unit, relation or choice asked for is not offered by this component."""


class BudgetExceededError(SfumatoError):
    """A charge would pass the budget of the dataset; nothing was drawn.

    Attributes
    ----------
    spent, asked, left : float
        Epsilon spent before, epsilon of the refused charge alone, epsilon left, all at the
        delta of the budget.
    """

    def __init__(self, message: str, *, spent: float, asked: float, left: float) -> None:
        super().__init__(message)
        self.spent, self.asked, self.left = spent, asked, left

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way back from a worker process."""
        known = partial(BudgetExceededError, spent=self.spent, asked=self.asked, left=self.left)
        return known, self.args


class LedgerError(SfumatoError):
    """The ledger cannot be opened, read or written."""


class LedgerTamperedError(LedgerError):
    """The ledger's chain of hashes is broken."""


class LedgerUncertainError(LedgerError):
    """The ledger did not confirm a charge: it may or may not have been made.

    Nothing was drawn. The same charge made again through the same handle is counted once; look at
    the statement before you retry it in any other way.
    """


class UnsupportedEventError(SfumatoError):
    """No accountant knows this event, so it cannot be counted."""


class StoredModelError(SfumatoError):
    """A saved file is damaged, was altered, or was written by a newer version."""


class FileNotWrittenError(SfumatoError, OSError):
    """A file could not be written, on a full disk say; an older one of that name is as it was."""


class NotEnoughMemoryError(SfumatoError, MemoryError):
    """What was asked for needs more memory than there is; refused before anything was charged."""


class EngineError(SfumatoError):
    """A part of the records was not added up: its engine failed or has sent what is of no use.

    No sum over a part of the records is ever released.

    Attributes
    ----------
    receipt : Receipt or None
        Proof of the charge of the fit that has failed.
    """

    def __init__(self, message: str, *, receipt: Any = None) -> None:
        super().__init__(message)
        self.receipt = receipt


class FederationError(SfumatoError):
    """A party refuses, is missing, or sends something that cannot be used."""


class RefutedGuaranteeWarning(UserWarning):
    """What was asked for keeps no promise; it is there for study."""


class UnlistedCategoryWarning(UserWarning):
    """Cells of a public table hold unlisted categories; each call that predicts says so."""


class UnprotectedScoreWarning(UserWarning):
    """A score on private rows is a release that no guarantee covers; said once per process."""
