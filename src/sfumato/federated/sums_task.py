"""A fit over sums as a task that can be deployed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.base import clone

from sfumato.exceptions import InvalidInputError
from sfumato.federated.carrying import Carrier, SumRound
from sfumato.federated.records import TRUST, Federation
from sfumato.models.base import PrivateEstimator
from sfumato.tables.bounds import Bounds
from sfumato.tables.schema import TableBounds

NO_BOUNDS = "'estimator' must be a private one with bounds=Bounds(...) or TableBounds(...)."


@dataclass(frozen=True)
class SumsTask:
    """Fit an estimator that learns from sums to the rows of all parties.

    Parameters
    ----------
    name : str
        Name of the task; a party makes the sums of one name once.
    estimator : PrivateEstimator
        Not fitted, with its bounds and budget.
    trust : {"noisy", "secure"}, default="secure"
        See `Federation`.
    colluding, dropouts : int
        See `Federation`.
    """

    name: str
    estimator: PrivateEstimator
    trust: str = "secure"
    colluding: int = 1
    dropouts: int = 0

    kind: ClassVar[str] = "sums"

    def __post_init__(self) -> None:
        if self.trust not in TRUST:
            raise InvalidInputError(f"'trust' must be one of {TRUST}. Got {self.trust!r}.")
        if not isinstance(getattr(self.estimator, "bounds", None), Bounds | TableBounds):
            raise InvalidInputError(NO_BOUNDS)

    def fit(
        self,
        carrier: Carrier,
        totals: str | os.PathLike[str] | None = None,
        watch: Callable[[SumRound], Any] | None = None,
    ) -> tuple[Any, Federation]:
        """Fit the estimator.

        Parameters
        ----------
        carrier : Carrier
            Carries requests to parties.
        totals : path-like, optional
            Folder for released totals, see `Federation`.
        watch : callable, optional
            Is told of each sum as it is made.

        Returns
        -------
        tuple
            The model, and the federation with what happened.
        """
        bounds = self.estimator.bounds
        if bounds is None:
            raise InvalidInputError(NO_BOUNDS)
        federation = Federation(
            carrier,
            bounds=bounds,
            trust=self.trust,
            task=self.name,
            relation=str(self.estimator.relation),
            colluding=self.colluding,
            dropouts=self.dropouts,
            totals=totals,
            watch=watch,
        )
        model: Any = clone(self.estimator).set_params(ledger=None)
        return model.fit(federation), federation
