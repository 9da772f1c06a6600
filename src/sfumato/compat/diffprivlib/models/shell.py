"""What diffprivlib's models share here: who pays, what is missing, and the model inside.

A shell takes diffprivlib's parameters and two more: `delta`, since our engines keep (epsilon,
delta), and `classes`, the public label set. Without `classes` the labels found are declared public,
and the guarantee lists that. Parameters that mean nothing here are taken and warned of.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sfumato.compat.diffprivlib.accountant import Bill, BudgetAccountant
from sfumato.exceptions import MissingBoundsError
from sfumato.guarantee import Guarantee
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import as_rows

__all__ = ["DELTA", "Array", "Shell", "box", "box_of_columns"]

Array = NDArray[np.float64]
DELTA = 1e-6


class Shell(BaseEstimator):
    """What all shells share: who pays, what is missing, and the model inside."""

    epsilon: float
    delta: float
    accountant: BudgetAccountant | None
    _without_effect: tuple[str, ...] = ()

    def _bill(self, *, used: tuple[str, ...] = ()) -> Bill:
        """Warn of parameters without effect, but for those that are used here; name who pays."""
        usual = type(self)().get_params(deep=False)
        given = self.get_params(deep=False)
        odd = [name for name in self._without_effect if given[name] != usual[name]]
        odd = [name for name in odd if name not in used]
        if odd:
            warnings.warn(f"These have no effect here: {', '.join(odd)}.", stacklevel=3)
        accountant = BudgetAccountant.load_default(self.accountant)
        return Bill(accountant, float(self.epsilon), float(self.delta))

    def _known(self, given: Any, name: str, line: str) -> Any:
        """Give what the caller knows without the data, or say which line to add."""
        if given is None:
            raise MissingBoundsError(
                f"'{name}' must be given: {type(self).__name__}({line}, ...), known without the "
                "data. diffprivlib would take it from the data and warn, which reveals "
                "the most extreme row."
            )
        return given

    @property
    def guarantee_(self) -> Guarantee:
        """What is promised."""
        check_is_fitted(self, "model_")
        found: Guarantee = self.model_.guarantee_
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


def box(bounds: Any, **more: Any) -> Bounds:
    """Give public bounds from diffprivlib's pair."""
    lower, upper = bounds
    return Bounds(lower=lower, upper=upper, **more)


def box_of_columns(bounds: Any, X: Any, **more: Any) -> Bounds:
    """Give public bounds with a pair of ends per column, so that columns are scaled to them."""
    width = as_rows(X).shape[1]
    ends = (np.broadcast_to(np.asarray(end, float), width).tolist() for end in bounds)
    return box(tuple(ends), **more)
