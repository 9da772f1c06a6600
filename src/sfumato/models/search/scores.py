"""The private score of a run: the sum of a number in [0, 1] per record, with noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor

from sfumato.core.arrays import Array, to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.models.private import PrivateEstimator
from sfumato.models.scores import are_right
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import truncate_to_grid
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import Codes, Statistic
from sfumato.tables.cells import as_cells, as_numbers
from sfumato.tables.frames import columns_of, is_table

SCORE_BITS = 20
RowScorer = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class ScoreSum(Statistic):
    """``sum s_i`` of numbers between 0 and 1; one record moves it by at most 1."""

    in_ball = 0  # scores are clipped

    @property
    def shape(self) -> tuple[int, ...]:
        """One number."""
        return (1,)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        """Add up scores."""
        return truncate_to_grid(np.clip(to_numpy(rows)[:, :1], 0.0, 1.0), SCORE_BITS).sum(axis=0)

    def term_sensitivity(self, relation: Relation) -> float:  # noqa: ARG002 - the same for both
        """1: two numbers between 0 and 1 are at most 1 apart, and so is one of them from 0."""
        # [V1] sensitivity of the score
        return 1.0


def scorer_for(estimator: Any, scoring: RowScorer | None) -> RowScorer:
    """Return the function that scores each row: that given, or one for the kind of estimator."""
    if scoring is not None:
        if not callable(scoring):
            raise InvalidInputError(
                "'scoring' must be None or a function of (model, X, y) that gives a number in "
                f"[0, 1] per row. Got {type(scoring).__name__} instead."
            )
        return scoring
    if is_classifier(estimator):
        return _right
    if is_regressor(estimator):
        return _near
    raise InvalidInputError(
        f"'scoring' is needed for {type(estimator).__name__}: a function of (model, X, y) that "
        "gives a number in [0, 1] per row, of that row and the model alone."
    )


def row_scores(scorer: RowScorer, model: Any, X: Any, y: Any) -> NDArray[np.float64]:
    """Return the scores as a column of numbers in [0, 1]; what is none counts as 0."""
    given = np.asarray(scorer(model, X, y), dtype=np.float64).reshape(-1, 1)
    return np.clip(np.nan_to_num(given, nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0)


def score_records(column: NDArray[np.float64], private: PrivateEstimator, X: Any) -> ArrayRecords:
    """Return scores as records of the unit and relation that the estimator promises."""
    unit, name = private.person_unit, getattr(private.bounds, "person", None)
    if unit is None:
        return ArrayRecords(column, relation=private.relation)
    if name is None or not is_table(X):
        raise InvalidInputError(
            "A search with unit 'person' needs a table whose bounds name the column of IDs: "
            "TableBounds.from_dict(..., person='patient', person_rows=8)."
        )
    return ArrayRecords.of_persons(  # [V10] a person's scores are one term
        column,
        groups=columns_of(X, [name])[name],
        unit=unit,
        relation=private.relation,
        group_by_person=False,
    )


def _right(model: Any, X: Any, y: Any) -> NDArray[np.bool_]:
    """Whether the label is right, row by row; a cell that cannot be compared is wrong."""
    return are_right(np.asarray(model.predict(X)), as_cells(y))


def _near(model: Any, X: Any, y: Any) -> NDArray[np.float64]:
    """``1 - (error / range)²``, both inside the public range of the target."""
    step = getattr(model, "steps", [(None, model)])[-1][1]
    lower, upper = step.target_bounds
    cells = np.nan_to_num(as_numbers(as_cells(y)), nan=lower, posinf=lower, neginf=lower)
    error = (np.clip(model.predict(X), lower, upper) - np.clip(cells, lower, upper)) / (
        upper - lower
    )
    return np.asarray(1 - error**2)
