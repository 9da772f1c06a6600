"""Candidates of a search, and what each of them would release, without drawing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Receipt
from sfumato.models.pipelines import check_pipeline
from sfumato.models.private import PrivateEstimator
from sfumato.privacy.events import Event

FIXED = ("epsilon", "delta", "unit", "relation", "ledger")


class _Asked(Exception):  # noqa: N818 - no error: it ends a fit just before its first draw
    def __init__(self, events: tuple[Event, ...]) -> None:
        self.events = events


class _Asking:
    """Stands in for a ledger: notes what would be charged, and stops there."""

    def charge(
        self,
        *events: Event,
        unit: str | None = None,  # noqa: ARG002 - the same for all candidates
        relation: str | None = None,  # noqa: ARG002
    ) -> Receipt:
        self._stop(events)

    @staticmethod
    def _stop(events: tuple[Event, ...]) -> NoReturn:
        raise _Asked(events)

    def __deepcopy__(self, memo: object) -> _Asking:
        return self


def private_step(estimator: Any) -> tuple[str, PrivateEstimator]:
    """Return the private estimator, and the prefix of its parameters where it ends a pipeline."""
    if isinstance(estimator, PrivateEstimator):
        return "", estimator
    if isinstance(estimator, Pipeline):
        check_pipeline(estimator)
        name, last = estimator.steps[-1]
        private = [step for _, step in estimator.steps if isinstance(step, PrivateEstimator)]
        if private == [last]:
            return f"{name}__", last
    raise InvalidInputError(
        "'estimator' must be a private estimator of Sfumato, or a pipeline whose last step, and no "
        f"other, is one. Got {type(estimator).__name__} instead."
    )


def candidates_of(
    estimator: Any, grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
) -> list[dict[str, Any]]:
    """List the settings of a grid; the words of the promise are not up for a search."""
    prefix, private = private_step(estimator)
    listed = list(ParameterGrid(grid))
    known = estimator.get_params()
    # Who a person is, and how many rows she has, is part of the promise.
    fixed = FIXED if private.person_unit is None else (*FIXED, "bounds")
    for name in {name for each in listed for name in each}:
        if name.removeprefix(prefix) in fixed:
            raise InvalidInputError(
                f"'param_grid' contains {name!r}: the guarantee is that of the search; set "
                f"{name.removeprefix(prefix)!r} there, or on the estimator."
            )
        if name not in known:
            raise InvalidInputError(f"'param_grid' contains {name!r}, which is not a parameter.")
    if not listed:
        raise InvalidInputError("'param_grid' contains no settings.")
    return listed


def with_budget(
    estimator: Any, settings: Mapping[str, Any], *, epsilon: float, delta: float, ledger: Any
) -> Any:
    """Return a fresh candidate with these settings and this budget."""
    prefix, _ = private_step(estimator)
    words = {"epsilon": epsilon, "delta": delta, "ledger": ledger}
    return clone(estimator).set_params(
        **settings, **{f"{prefix}{name}": value for name, value in words.items()}
    )


def planned_events(candidate: Any, X: Any, y: Any) -> tuple[Event, ...]:
    """Run `fit` up to its charge and return the events that it would charge; nothing is drawn.

    Events are functions of public facts, and every fit charges before its first draw: that is what
    the proof sheets of all estimators, and tests of all of them, keep.
    """
    # [V2] the releases of a run are known before the search is charged
    prefix, _ = private_step(candidate)
    candidate.set_params(**{f"{prefix}ledger": _Asking()})
    try:
        candidate.fit(X, y) if y is not None else candidate.fit(X)
    except _Asked as asked:
        return asked.events
    raise InvalidInputError(f"{type(candidate).__name__} released something without a charge.")
