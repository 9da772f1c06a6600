"""Scores: a figure measured on private rows is a release too.

`score`, `cross_val_score` and `GridSearchCV` measure on the rows they are given, without noise and
without a charge. They say so once. `release_score` measures the same figure privately.
"""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_regressor

from sfumato.exceptions import (
    InvalidInputError,
    MissingBoundsError,
    UnprotectedScoreWarning,
)
from sfumato.mechanisms.base import require_epsilon
from sfumato.models.budget import Budget
from sfumato.privacy.guarantee import Guarantee, Relation
from sfumato.sums.grid import FINE_BITS, truncate_to_grid
from sfumato.sums.maps import ROUNDING_MARGIN
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import CountTables, SecondMoment
from sfumato.tables.bounds import label_places
from sfumato.tables.cells import as_cells, as_numbers, is_table
from sfumato.tables.schema import TableBounds

ADVICE = (
    "A score on private rows is a release that no guarantee covers: it has no noise and no ledger "
    "was charged for it. On public rows it costs nothing. To measure privately, use "
    "sfumato.release_score; to look as the owner of the rows, sfumato report --sensitive."
)
SEARCH = (
    "A score on private rows is a release that no guarantee covers, and so is a choice made by "
    "such scores: cross-validation and searches of scikit-learn publish one for each split, and "
    "each of their fits is a release of its own. On public rows they cost nothing. To measure "
    "privately, use sfumato.release_score on rows that no fit has seen; to choose settings, "
    "sfumato.PrivateSearchCV, at one price."
)
ENSEMBLE = (
    "Ensembles and calibrations of scikit-learn learn from the rows themselves, without noise, and "
    "some give a private estimator one record several times (bagging draws with replacement), so "
    "that it weighs more than was paid for. No guarantee covers what they make of private rows; on "
    "public or fabricated rows they cost nothing."
)
CALLERS = {  # modules of scikit-learn, and what is said of them
    "sklearn.model_selection": ("search", SEARCH),
    "sklearn.ensemble": ("ensemble", ENSEMBLE),
    "sklearn.calibration": ("ensemble", ENSEMBLE),
}
SCORE_DOC = """Measure predictions on given rows, without noise: share of right labels, or R².

        On private rows the figure is a release that no guarantee covers: see
        `sfumato.release_score`. The first call in a process says so.

        Parameters
        ----------
        X : array-like or table
            Rows.
        y : array-like
            Labels or targets.
        sample_weight : array-like, optional
            Weights of the rows.

        Returns
        -------
        float
            The score.
        """
_SAID: set[str] = set()  # what this process has said


# What is said ---------------------------------------------------------------------------------


def warn_on_score(score: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `score` so that its first call in a process says what it is."""

    @functools.wraps(score)
    def scored(self: Any, *args: Any, **options: Any) -> Any:
        _say_once("score", ADVICE, stacklevel=3)
        return score(self, *args, **options)

    if score.__module__.startswith("sklearn"):
        scored.__doc__ = SCORE_DOC
    scored.says_once = True  # type: ignore[attr-defined]
    return scored


def warn_inside_model_selection() -> None:
    """Warn, once per process, where a fit was called by what scikit-learn makes of many fits.

    Only the names of the calling modules are read.
    """
    for module, (about, words) in CALLERS.items():
        frame = sys._getframe(1) if module in sys.modules and about not in _SAID else None
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).startswith(module):
                _say_once(about, words, stacklevel=4)
            frame = frame.f_back


def _say_once(about: str, words: str, *, stacklevel: int) -> None:
    if about not in _SAID:
        _SAID.add(about)
        warnings.warn(words, UnprotectedScoreWarning, stacklevel=stacklevel)


# Private scores -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReleasedScore:
    """A private score.

    Parameters
    ----------
    value : float
        Share of right labels, or R² of a regressor.
    deviation : float
        Standard deviation of the noise of `value`, about.
    guarantee : Guarantee
        What is promised.
    """

    value: float
    deviation: float
    guarantee: Guarantee


def release_score(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: str = "replace_one",
    target_bounds: tuple[float, float] | None = None,
    ledger: Any = None,
) -> ReleasedScore:
    """Measure a fitted model on private rows, privately and charged.

    Parameters
    ----------
    model : estimator
        Fitted; its prediction for a row must depend on that row alone. For an honest figure, the
        rows should not be those it was fitted to.
    X : array-like or table
        Rows as `predict` takes them.
    y : array-like, optional
        Labels or targets; by default the column of a table that the bounds name as target.
    epsilon, delta : float
        The budget; a classifier needs no delta, a regressor does.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    target_bounds : (float, float), optional
        Public range of a regressor's target; by default that of the model.
    ledger : DatasetBudget, optional
        Who pays.

    Returns
    -------
    ReleasedScore
        The score, its noise and its guarantee.

    Notes
    -----
    Labels: the counts of right and wrong predictions with Laplace noise; a record moves them by 1
    (add or remove) or 2 in sum. Targets: the second moment of ``[1, t, p] / √3``, target and
    prediction scaled to [-1, 1] by the public range, with Gaussian noise. Proof:
    docs/guarantees/scores.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sfumato import release_score
    >>> X = np.random.default_rng(0).normal(size=(4000, 2))
    >>> model = LogisticRegression().fit(X[:2000], X[:2000, 0] > 0)
    >>> found = release_score(model, X[2000:], X[2000:, 0] > 0, epsilon=1.0)
    >>> bool(found.value > 0.9)
    True
    """
    bounds: Any = getattr(model, "bounds", None)
    of_table = isinstance(bounds, TableBounds)
    if y is None and of_table and is_table(X):
        y = bounds.target_of(X, None)
    if y is None:
        raise InvalidInputError("'y' must be given: the labels or targets of the rows.")
    truth = as_cells(y)
    # Where the number of rows is secret there may be none, of which models say nothing.
    predicted = np.asarray(model.predict(X)) if len(truth) else np.empty(0)
    if truth.ndim != 1 or truth.shape != predicted.shape:
        raise InvalidInputError("X and y have inconsistent numbers of samples.")
    public = ["the model"] + ["number of rows"] * (Relation(relation) is Relation.REPLACE_ONE)
    statistic: Any = CountTables((2,), ((0,),))
    if not is_regressor(model):
        rows = are_right(predicted, truth)[:, None].astype(np.float64)
    else:
        ends = target_bounds or getattr(model, "target_bounds", None)
        ends = bounds.target_range if ends is None and of_table else ends
        if ends is None:
            raise MissingBoundsError(
                "'target_bounds' must be given: the public range of the target."
            )
        low, high = (float(end) for end in ends)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInputError("'target_bounds' must be two finite numbers, the lower first.")
        # [1, t, p] / √3, 0 where the target is missing; each record alone.
        pair = np.column_stack([as_numbers(truth), predicted])
        scaled = np.clip((pair - (low + high) / 2) / ((high - low) / 2), -1.0, 1.0)
        together = np.column_stack([np.ones(len(truth)), scaled])
        together[~np.isfinite(pair).all(axis=1)] = 0.0
        rows = truncate_to_grid(together * ((1 - ROUNDING_MARGIN) / math.sqrt(3)), FINE_BITS)
        statistic, public = SecondMoment(3), [*public, "range of the target"]
    records = ArrayRecords(rows, relation=relation)
    budget = Budget(require_epsilon(epsilon), float(delta), records, ledger, facts=tuple(public))
    # [U1] a record is counted once; [U2] a row of length 1
    declare = budget.gaussian if is_regressor(model) else budget.laplace
    release = declare(statistic)
    budget.charge()
    released = budget.draw(release)  # [U3] the only release
    noise, n_rows = budget.noise(release), records.public_rows
    if is_regressor(model):
        moments, noise = 3 * released, 3 * noise
        total = max(float(moments[0, 0]) if n_rows is None else float(n_rows), 1.0)
        left = float(moments[1, 1] - 2 * moments[1, 2] + moments[2, 2]) / total
        spread = float(moments[1, 1] / total - (moments[0, 1] / total) ** 2)
        spread = max(spread, noise / total)
        value, deviation = min(1 - left / spread, 1.0), 2 * noise / (total * max(spread, 1e-12))
    else:
        wrong, right = (float(count) for count in released)
        total = max(wrong + right if n_rows is None else float(n_rows), 1.0)
        deviation = noise / total
        if n_rows is not None:  # both counts tell the same: their mean has half the variance
            right, deviation = (right + n_rows - wrong) / 2, deviation * math.sqrt(0.5)
        value = min(max(right / total, 0.0), 1.0)
    return ReleasedScore(value, deviation, budget.guarantee())


def are_right(predicted: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which predictions are the labels beside them, compared as by a fit; none raises."""
    if not len(predicted):
        return np.zeros(0, dtype=bool)
    labels, places = np.unique(predicted, return_inverse=True)
    return np.asarray(label_places(labels, truth) == places)
