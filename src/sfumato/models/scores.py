"""Scores: a figure measured on private rows is a release too.

`score`, `cross_val_score` and `GridSearchCV` measure on the rows they are given, without noise and
without a charge. They say so once. `release_score` measures the same figure privately.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_regressor

from sfumato.core.arrays import is_foreign_array
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnprotectedScoreWarning
from sfumato.mechanisms.base import require_epsilon
from sfumato.models.budget import Budget
from sfumato.privacy.guarantee import Guarantee, Relation, Unit
from sfumato.sums.persons import PersonUnit
from sfumato.sums.records import ArrayRecords, Records
from sfumato.sums.statistics import CountTables
from sfumato.tables.bounds import label_places
from sfumato.tables.cells import as_cells, as_numbers, columns_of, is_table
from sfumato.tables.schema import TableBounds

ADVICE = (
    "A score on private rows is a release that no guarantee covers; on public rows it costs "
    "nothing. To measure privately, use sfumato.release_score."
)
SEARCH = (
    "A score on private rows is a release that no guarantee covers, and so is a choice made by "
    "such scores; each fit of a search is a release of its own. On public rows they cost nothing. "
    "To choose settings for one charge, use sfumato.PrivateSearchCV."
)
ENSEMBLE = (
    "A scikit-learn estimator around a private one may learn from the rows itself, or pass on one "
    "record several times. No guarantee covers what it computes from private rows; public or "
    "fabricated rows are safe."
)
AROUND = "ensemble calibration compose._target feature_selection multi semi_supervised"
CALLERS = {  # modules of scikit-learn, and what is said of them; the third scales by the targets
    **{f"sklearn.{name}": ("ensemble", ENSEMBLE) for name in AROUND.split()},
    "sklearn.model_selection": ("search", SEARCH),
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


def warn_on_score(score: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `score` so that its first call in a process says what it is."""

    @functools.wraps(score)
    def scored(self: Any, *args: Any, **options: Any) -> Any:
        say_once("score", ADVICE, stacklevel=3)
        return score(self, *args, **options)

    if score.__module__.startswith("sklearn"):
        scored.__doc__ = SCORE_DOC
    scored.says_once = True  # type: ignore[attr-defined]
    return scored


def say_once(about: str, words: str, *, stacklevel: int) -> None:
    """Warn of unprotected scores or rows, once per process."""
    if about not in _SAID:
        _SAID.add(about)
        warnings.warn(words, UnprotectedScoreWarning, stacklevel=stacklevel)


# Private scores -------------------------------------------------------------------------------


METRICS = {True: ("r2", "mae"), False: ("accuracy", "auc")}  # of regressors, and of classifiers
ROWS_ALONE = "the model's answer for a row has the same bits whatever rows it is asked with"
FEWEST_BINS, MOST_BINS = 8, 64  # of probabilities, for the area under the ROC curve


@dataclass(frozen=True)
class ReleasedScore:
    """A private score.

    Parameters
    ----------
    value : float
        The figure.
    deviation : float
        Standard deviation of the noise of `value`, about.
    guarantee : Guarantee
        What is promised.
    metric : str
        What was measured.
    """

    value: float
    deviation: float
    guarantee: Guarantee
    metric: str = "accuracy"


def measure(model: Any, X: Any, truth: ArrayLike) -> dict[str, float]:
    """Return all metrics of a fitted model on public rows, those with a label, without noise."""
    truth, predicted = as_cells(truth), np.asarray(model.predict(X))
    if is_regressor(model):
        numbers = as_numbers(truth)
        known = np.isfinite(numbers)
        left, spread = numbers[known] - predicted[known], numbers[known] - numbers[known].mean()
        r2 = 1 - float(left @ left) / max(float(spread @ spread), 1e-300)
        return {"r2": r2, "mae": float(np.abs(left).mean())}
    labels = np.asarray(model.classes_)
    known = (places := label_places(labels, truth)) >= 0
    found = {"accuracy": float(are_right(labels, predicted[known], truth[known]).mean())}
    if len(labels) == 2 and hasattr(model, "predict_proba") and len(np.unique(places[known])) == 2:
        from sklearn.metrics import roc_auc_score  # here, because it takes time

        chances = np.asarray(model.predict_proba(X))[known, 1]
        found["auc"] = float(roc_auc_score(places[known] == 1, chances))
    return found


def release_score(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    metric: str | None = None,
    delta: float = 0.0,
    unit: str | None = None,
    relation: str = "replace_one",
    groups: Any = None,
    target_bounds: tuple[float, float] | None = None,
    ledger: Any = None,
) -> ReleasedScore:
    """Measure a fitted model on private rows, privately and charged (docs/guarantees/scores.md).

    Parameters
    ----------
    model : estimator
        Fitted; its prediction for a row must depend on that row alone, to the bit. That is proved
        for additive and linear models; of others the guarantee lists it as a condition. A row for
        which a model of another library raises an error counts as answered wrongly, or not at all.
        For an honest figure, the rows should not be those it was fitted to.
    X : array-like or table
        Rows as `predict` takes them.
    y : array-like, optional
        Labels or targets; by default the column of a table that the bounds name as target.
    epsilon, delta : float
        The budget; no score needs a delta.
    metric : {"accuracy", "auc", "r2", "mae"}, optional
        By default the share of right labels, or R². The area under the ROC curve is of two labels.
        Rows without a label that the model knows are left out.
    unit : {"record", "person"}, optional
        By default that of the ledger; without one, persons where the model's bounds name them.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    groups : array-like, optional
        IDs of persons; by default the column that the bounds name.
    target_bounds : (float, float), optional
        Public range of a regressor's target; by default that of the model.
    ledger : DatasetBudget, optional
        Who pays.

    Returns
    -------
    ReleasedScore
        The score, its noise and its guarantee.

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
    from sfumato.models.base import PrivateEstimator  # here: they import this file
    from sfumato.models.statistics import NOT_THERE, Axis, GroupedRows, GroupSums

    bounds: Any = getattr(model, "bounds", None)
    of_table = isinstance(bounds, TableBounds)
    if y is None and of_table and is_table(X):
        y = bounds.target_of(X, None)
    if y is None:
        raise InvalidInputError("'y' must be given: the labels or targets of the rows.")
    offered = METRICS[is_regressor(model)]
    metric = metric or offered[0]
    labels = np.asarray(getattr(model, "classes_", ()))
    has_auc = metric != "auc" or (len(labels) == 2 and hasattr(model, "predict_proba"))
    if metric not in offered or not has_auc or not (is_regressor(model) or len(labels)):
        raise InvalidInputError(
            f"'metric' must be {' or '.join(offered)} here, of a model with 'classes_'; 'auc' is "
            f"of probabilities of two labels. Got {metric!r}."
        )
    person = _person_unit(unit, bounds, ledger)
    if person is not None and groups is None and of_table and bounds.person and is_table(X):
        groups = columns_of(X, [bounds.person])[bounds.person]
    if person is not None and groups is None:
        raise InvalidInputError("Unit 'person' needs the ID of each row's person: 'groups'.")
    truth, width, statistic = as_cells(y), 1.0, CountTables((2,), ((0,),))
    shape = getattr(X, "shape", (len(X),))
    if truth.ndim != 1 or len(truth) != shape[0]:
        raise InvalidInputError("X and y have inconsistent numbers of samples.")
    expected, is_own = getattr(model, "n_features_in_", None), isinstance(model, PrivateEstimator)
    if isinstance(X, np.ndarray) and expected not in (None, shape[-1]):
        raise InvalidInputError(f"X has {shape[-1]} features, the model expects {expected}.")
    if metric in METRICS[True]:
        low, high = range_of_target(target_bounds or getattr(model, "target_bounds", None), bounds)
        width = (high - low) / 2
        statistic = GroupSums(1, 4 if metric == "r2" else 2, 1.0)  # type: ignore[assignment]

    def terms(X: Any, truth: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        predicted, codes = np.asarray(model.predict(X)), np.zeros(len(truth), dtype=np.intp)
        if predicted.shape != truth.shape:
            raise InvalidInputError("The model must predict one number or label for each row.")
        if metric in METRICS[False]:
            codes = label_places(labels, truth)  # -1 adds nothing
        if metric == "accuracy":
            right = are_right(labels, predicted, truth)[:, None]
            return right.astype(np.float64), np.minimum(codes, 0)
        if metric == "auc":
            return np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1:], codes
        pair = np.column_stack([as_numbers(truth), as_numbers(predicted)]) - (low + high) / 2
        codes[~np.isfinite(pair).all(axis=1)] = -1
        pair = np.clip(np.nan_to_num(pair / width), -1, 1)
        t, error, ones = pair[:, 0], np.diff(pair).ravel() / 2, np.ones(len(truth))
        if metric == "mae":
            return np.column_stack([0 * ones, ones / 2, np.abs(error) / 2]), codes
        return np.column_stack([0 * ones, ones, t, t**2 - 0.5, error**2]) / 3.5, codes  # [U2]

    blank = np.zeros((1, 1 if metric in ("accuracy", "auc") else 1 + statistic.size))
    parts = [(blank[:0], np.empty(0, dtype=np.intp))]  # there may be no row if n is secret
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # they would tell of a row
        warnings.simplefilter("ignore")
        try:
            parts += [terms(X, truth)] if len(truth) else []
        except Exception:
            if is_own:  # for no fault of a row
                raise
            for i in range(len(truth)):  # [U5] each row alone; one that fails is a wrong answer
                at = slice(i, i + 1)
                row = X.slice(i, 1) if hasattr(X, "slice") else getattr(X, "iloc", X)[at]
                try:
                    parts.append(terms(row, truth[at]))
                except Exception:
                    parts.append((blank, np.full(1, -(metric != "accuracy"), dtype=np.intp)))
    rows, codes = (np.concatenate(each) for each in zip(*parts, strict=True))
    if person is None:
        records: Records = ArrayRecords(rows, codes, relation=relation)
    else:
        records = ArrayRecords.of_persons(
            rows, codes, groups=groups, unit=person, relation=relation
        )
    if metric == "auc":  # [U4] a cell of a probability, and a label; fewer where noise is large
        n_bins = math.sqrt((records.public_rows or 10_000) * require_epsilon(epsilon)) / 2
        n_bins = int(min(max(n_bins, FEWEST_BINS), MOST_BINS))
        edges = tuple(np.linspace(0, 1, n_bins + 1).tolist())
        axis = Axis("probability", (None,) * (n_bins + 1), edges)  # the last one: none
        records = records.mapped(GroupedRows((axis,)))
        statistic = CountTables((n_bins + 1,), ((0,),), 2)
    public = ["the model"] + ["range of the target"] * is_regressor(model)
    if Relation(relation) is Relation.REPLACE_ONE:
        public.append("number of rows" if person is None else "number of persons")
    chosen = str(Unit.RECORD if person is None else Unit.PERSON)
    facts = tuple(public)
    budget = Budget(require_epsilon(epsilon), float(delta), records, ledger, chosen, facts=facts)
    release = budget.laplace(statistic)  # [U1] one record or person, one cell
    budget.charge()
    drawn = budget.draw(release)  # [U3] the only release
    noise, n_rows = budget.noise(release), records.public_rows
    if metric == "accuracy":
        wrong, right = (float(count) for count in drawn)
        known, share = max(wrong + right, 1.0), math.sqrt(0.5)
        if n_rows is not None and n_rows - known < NOT_THERE * math.sqrt(2) * noise:
            known, right = float(n_rows), (right + n_rows - wrong) / 2  # both tell the same
        else:
            share = math.hypot(right, wrong) / known
        value, deviation = min(max(right / known, 0.0), 1.0), min(share, 1.0) * noise / known
    elif metric == "auc":
        table = drawn.reshape(-1, 2)[:-1]
        sizes = np.maximum(table.sum(axis=0), 1.0)
        shares = table / sizes
        lower = np.cumsum(shares, axis=0) - shares / 2  # of each label, below a cell
        value = float(np.clip(shares[:, 1] @ lower[:, 0], 0.0, 1.0))
        slopes = [(lower[:, 0] - value) / sizes[1], (1 - lower[:, 1] - value) / sizes[0]]
        deviation = noise * float(np.linalg.norm(slopes))
    else:
        sums, noise = drawn[0] * (2 if metric == "mae" else 3.5), noise * 3.5
        total = max(float(sums[0]), 1.0)
        if metric == "mae":
            value = 2 * width * float(np.clip(sums[1] / total, 0.0, 1.0))
            deviation = 2 * width * noise * 2 / 3.5 * math.hypot(1, value / (2 * width)) / total
        else:
            mean, square, left = sums[1] / total, sums[2] / total + 0.5, 4 * sums[3] / total
            spread = max(float(square - mean**2), 2 * noise / total)
            value = min(1 - float(left) / spread, 1.0)
            deviation = (
                noise / total * math.hypot(4, (1 - value) * math.hypot(1, 2 * mean)) / spread
            )
    promise = budget.guarantee().only_if(*unproved_of(model, X))
    return ReleasedScore(value, deviation, promise, metric)


def unproved_of(model: Any, X: Any) -> tuple[str, ...]:
    """Return what scores assume of a model: products of matrices may round by a row's place."""
    answers_alone = getattr(model, "answers_alone", False) is True
    return () if answers_alone and not is_foreign_array(X) else (ROWS_ALONE,)


def _person_unit(unit: str | None, bounds: Any, ledger: Any) -> PersonUnit | None:
    """Return what is public about persons where they are the unit, by the ledger or the bounds."""
    kept = getattr(getattr(ledger, "total", None), "unit", None)
    named = Unit.PERSON if getattr(bounds, "person", None) else Unit.RECORD
    if Unit(unit or kept or named) is not Unit.PERSON:
        return None
    rows = getattr(bounds, "person_rows", None)
    if rows is None:
        raise MissingBoundsError(
            "Unit 'person' needs 'person_rows' in the bounds of the model, the largest number of "
            "rows used per person."
        )
    return PersonUnit(rows, bounds.per_person)


def range_of_target(given: Any, bounds: Any) -> tuple[float, float]:
    """Return the public range of a target: as given, or that of the bounds."""
    given = bounds.target_range if given is None and isinstance(bounds, TableBounds) else given
    if given is None:
        raise MissingBoundsError(
            "'target_bounds' must be given, the public range of the target; it is never learned "
            "from data."
        )
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError("'target_bounds' must be two finite numbers, the lower first.")
    return low, high


def are_right(labels: Any, predicted: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which predictions equal their labels, by the set of a model, each pair alone."""
    places = label_places(np.asarray(labels), truth)
    return np.asarray((places >= 0) & (places == label_places(np.asarray(labels), predicted)))
