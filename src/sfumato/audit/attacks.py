"""Attacks on membership: does what a model shows of a row tell whether it was fitted on it.

An attacker sees one number of each row, small for the rows that the model was fitted on:

==============  ==================================================================================
observation     number
==============  ==================================================================================
``distance``    least distance to the hulls of the classes, equation (67)
``loss``        ``-log p(label)`` of the row's own label
``margin``      minus the score of the row's own label less that of the best other label
``confidence``  minus the largest score less the second, where labels are not known
``density``     minus the log-density of the row
==============  ==================================================================================

The threshold attack calls a row a member when its number is small enough. The likelihood-ratio
attack (Carlini et al. 2022) compares it with shadow models, half of which have seen the row, by
``log N(v; mean_in, s²) - log N(v; mean_out, s²)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv
from scipy.stats import norm, rankdata
from sklearn.base import clone
from sklearn.utils import check_random_state

from sfumato.audit.empirical import check_confidence, lower_limit, upper_limit
from sfumato.core.arrays import to_numpy
from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]

DIAGNOSTIC = (
    "A diagnostic measured on raw rows, not a guarantee and not for release: publishing it spends "
    "privacy that no budget has paid for."
)
LOW_RATES = (0.01, 0.001)
MIN_PROBABILITY = 1e-12
MIN_VARIANCE = 1e-12
MIN_CHANCE = 1e-4  # a probability beyond this or its complement counts as this
_SCORES = ("decision_function", "predict_proba")
OBSERVATIONS = {  # which methods offer them
    "distance": ("distances", "distance"),
    "loss": ("predict_proba",),
    "margin": _SCORES,
    "confidence": _SCORES,
    "density": ("score_samples",),
}


def choose_observation(model: Any, observation: str | None, *, with_labels: bool) -> str:
    """Return the observation asked for, or the first that the model offers."""
    offered = []
    for name, methods in OBSERVATIONS.items():
        # A mixture has chances too, but not of labels.
        of_labels = name in ("loss", "margin", "confidence")
        is_known = (with_labels or name not in ("loss", "margin")) and (
            not of_labels or hasattr(model, "classes_")
        )
        if is_known and any(hasattr(model, method) for method in methods):
            offered.append(name)
    if observation is None:
        if not offered:
            raise InvalidInputError(
                f"{type(model).__name__} reveals nothing about a row: it needs 'distances', "
                "'predict_proba', 'decision_function' or 'score_samples'."
            )
        return offered[0]
    if observation not in OBSERVATIONS:
        raise InvalidInputError(
            f"'observation' must be one of {tuple(OBSERVATIONS)}. Got {observation!r} instead."
        )
    if observation not in offered:
        raise InvalidInputError(
            f"{type(model).__name__} does not offer the observation {observation!r}"
            + ("." if with_labels else ", or labels are missing for it.")
        )
    return observation


def observe(model: Any, X: ArrayLike, y: ArrayLike | None, observation: str) -> Array:
    """Return the number of each row."""
    if observation in ("loss", "margin") and y is None:
        raise InvalidInputError(f"The observation {observation!r} needs the labels of the rows.")
    method = next((m for m in OBSERVATIONS[observation] if hasattr(model, m)), "")
    found = np.array(to_numpy(getattr(model, method)(X)), dtype=np.float64)
    if observation in ("margin", "confidence") and found.ndim == 1:
        found = np.stack([-found, found], axis=1)
    rows, own = np.arange(len(found)), np.zeros(len(found), dtype=np.intp)
    if observation in ("loss", "margin"):
        labels = np.asarray(y)
        own = np.searchsorted(model.classes_, labels).clip(max=len(model.classes_) - 1)
        if not np.array_equal(np.asarray(model.classes_)[own], labels):
            raise InvalidInputError("Some labels are unknown to the model.")
    if observation == "distance":
        values = found.min(axis=1) if found.ndim == 2 else found
    elif observation == "loss":
        values = -np.log(np.maximum(found[rows, own], MIN_PROBABILITY))
    elif observation == "margin":
        mine = found[rows, own]
        found[rows, own] = -np.inf
        values = found.max(axis=1) - mine
    elif observation == "confidence":
        best = np.sort(found, axis=1)
        values = best[:, -2] - best[:, -1]
    else:
        values = -found
    if not np.isfinite(values).all():
        raise InvalidInputError(f"The model gives some rows no finite {observation}.")
    return np.asarray(values)


# One threshold ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A figure with its confidence interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.lower:.3f}, {self.upper:.3f}]"


@dataclass(frozen=True)
class MembershipAttack:
    """How well members can be told from others by one threshold.

    auc: Chance that a member's number is below another row's; 0.5 for an attacker who guesses.
    true_positive_rates: At each false-positive rate.
    curve: False-positive and true-positive rates of the ROC curve.
    observation: What was thresholded.
    confidence: Of the intervals.
    n_members, n_non_members: Rows on either side.
    """

    auc: Estimate
    true_positive_rates: dict[float, Estimate]
    curve: tuple[Array, Array]
    observation: str
    confidence: float
    n_members: int
    n_non_members: int

    def __str__(self) -> str:
        rates = "; ".join(
            f"true-positive rate {found} at false-positive rate {rate:g}"
            for rate, found in self.true_positive_rates.items()
        )
        return f"Threshold on {self.observation}: AUC {self.auc}; {rates}. {DIAGNOSTIC}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        rates = {f"{rate:g}": vars(found) for rate, found in self.true_positive_rates.items()}
        record = {k: v for k, v in vars(self).items() if k != "curve"}
        more = {"auc": vars(self.auc), "true_positive_rates": rates, "note": DIAGNOSTIC}
        return {**record, **more}


def membership_attack(
    model: Any,
    members: ArrayLike,
    non_members: ArrayLike,
    *,
    y_members: ArrayLike | None = None,
    y_non_members: ArrayLike | None = None,
    observation: str | None = None,
    rates: Sequence[float] = LOW_RATES,
    confidence: float = 0.95,
) -> MembershipAttack:
    """Call a row a member when its distance, loss or margin is small enough.

    Parameters
    ----------
    model : fitted estimator
        With `distances`, `predict_proba`, `decision_function` or `score_samples`.
    members, non_members : array-like of shape (n_rows, n_features)
        Rows that the model was fitted on, and rows of the same kind that it was not.
    y_members, y_non_members : array-like, optional
        Their labels.
    observation : {"distance", "loss", "margin", "confidence", "density"}, optional
        What is thresholded; by default the first of them that the model offers.
    rates : sequence of float, default=(0.01, 0.001)
        False-positive rates at which the true-positive rate is told.
    confidence : float, default=0.95
        Of the intervals.

    Returns
    -------
    MembershipAttack
        ROC curve and figures with confidence intervals.
    """
    with_labels = y_members is not None and y_non_members is not None
    observation = choose_observation(model, observation, with_labels=with_labels)
    return attack_from_values(
        observe(model, members, y_members, observation),
        observe(model, non_members, y_non_members, observation),
        observation=observation,
        rates=rates,
        confidence=confidence,
    )


def attack_from_values(
    members: ArrayLike,
    non_members: ArrayLike,
    *,
    observation: str = "value",
    rates: Sequence[float] = LOW_RATES,
    confidence: float = 0.95,
    repeats: int = 1,
) -> MembershipAttack:
    """Run the threshold attack on numbers that are there, small for members."""
    check_confidence(confidence)
    sides = []
    for name, given in (("members", members), ("others", non_members)):
        values = np.sort(np.asarray(given, dtype=np.float64).ravel())
        if len(values) < 4 or not np.isfinite(values).all():
            raise InvalidInputError(
                f"The numbers of the {name} must be finite, at least 4 of them."
            )
        sides.append(values)
    inside, outside = sides
    if not all(0 < rate < 1 for rate in rates):
        raise InvalidInputError("'rates' must lie in (0, 1).")
    # Area under the curve with the variance of DeLong et al. (1988), from ranks
    m, n = len(inside), len(outside)
    together = rankdata(np.concatenate([inside, outside]))
    above = 1 - (together[:m] - rankdata(inside)) / n  # share of others above each member
    below = (together[m:] - rankdata(outside)) / m
    area = float(above.mean())
    variance = repeats * (above.var(ddof=1) / m + below.var(ddof=1) / n)
    reach = float(norm.ppf((1 + confidence) / 2)) * math.sqrt(variance)
    thresholds = np.unique(np.concatenate(sides))
    true, false = (np.searchsorted(side, thresholds, side="right") / len(side) for side in sides)
    return MembershipAttack(
        auc=Estimate(area, max(0.0, area - reach), min(1.0, area + reach)),
        true_positive_rates={
            float(rate): _rate_at(inside, outside, rate, confidence, repeats) for rate in rates
        },
        curve=(np.append(0.0, false), np.append(0.0, true)),
        observation=observation,
        confidence=confidence,
        n_members=len(inside) // repeats,
        n_non_members=len(outside) // repeats,
    )


def _rate_at(
    inside: Array, outside: Array, rate: float, confidence: float, repeats: int
) -> Estimate:
    """True-positive rate at a false-positive rate, with limits that need no assumption.

    The k-th smallest of n others has a false-positive rate of law Beta(k, n - k + 1): the lower
    limit takes a threshold that is surely strict enough, the upper one that is surely not.
    """
    risk = (1 - confidence) / 4
    n, m = len(outside) / repeats, len(inside) / repeats
    places = np.arange(1, int(n) + 1)
    strict = int((betaincinv(places, n - places + 1, 1 - risk) <= rate).sum())
    loose = int((betaincinv(places, n - places + 1, risk) < rate).sum()) + 1
    value = _share_below(inside, outside, int(rate * len(outside)))
    least = _share_below(inside, outside, (strict - 1) * repeats) if strict else 0.0
    most = _share_below(inside, outside, (loose - 1) * repeats)
    return Estimate(
        value,
        min(value, float(lower_limit(least * m, m, risk))),
        max(value, float(upper_limit(most * m, m, risk))),
    )


def _share_below(inside: Array, outside: Array, k: int) -> float:
    """Share of members below the others' (k+1)-th smallest number, where k others are."""
    if k >= len(outside):
        return 1.0
    return float(np.searchsorted(inside, outside[k], side="left") / len(inside))


# Shadow models ----------------------------------------------------------------------------------


def shadow_attack(
    make_model: Any,
    X: ArrayLike,
    y: ArrayLike | None = None,
    n_models: int = 16,
    *,
    observation: str | None = None,
    rates: Sequence[float] = LOW_RATES,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    random_state: Any = 0,
) -> MembershipAttack:
    """Attack the training of a model with shadow models, each in turn the one under attack.

    Parameters
    ----------
    make_model : callable or estimator
        Returns an unfitted estimator; an estimator is cloned. Estimators with a ledger would charge
        it once a model: give one without.
    X : array-like of shape (n_rows, n_features)
        Rows; each model is fitted on a random half of them.
    y : array-like of shape (n_rows,), optional
        Labels.
    n_models : int, default=16
        Models, an even number of at least 4. Half of them have seen any given row.
    observation : str, optional
        What the attacker sees, see `membership_attack`. A loss is taken as log-odds.
    rates : sequence of float
        See `membership_attack`.
    confidence : float, default=0.95
        See `membership_attack`.
    n_jobs : int, optional
        Workers, see joblib.
    random_state : int, RandomState or None, default=0
        Chooses the halves.

    Returns
    -------
    MembershipAttack
        Over all rows and models; intervals count every row once.

    Notes
    -----
    Variances are pooled over rows, as Carlini et al. advise for fewer than 64 models.
    """
    if n_models < 4 or n_models % 2:
        raise InvalidInputError(f"'n_models' must be even and at least 4. Got {n_models} instead.")
    rows = np.asarray(X)
    labels = None if y is None else np.asarray(y)
    # Each row is seen by half of the models.
    ranks = check_random_state(random_state).random_sample((n_models, len(rows)))
    halves = np.argsort(ranks, axis=0) < n_models // 2
    task = partial(_shadow, make_model, rows, labels, observation)
    found = map_in_parallel(task, list(halves), n_jobs=n_jobs)
    name, values = found[0][0], np.stack([each[1] for each in found])
    scores = likelihood_ratios(values, halves)
    scores = np.round(scores, 9)  # equal values must tie: roundings differ between the groups
    return attack_from_values(
        -scores[halves],
        -scores[~halves],
        observation=f"likelihood ratio of the {name}",
        rates=rates,
        confidence=confidence,
        repeats=n_models // 2,
    )


def _shadow(
    make_model: Any, X: Any, y: Any, observation: str | None, seen: NDArray[np.bool_]
) -> tuple[str, Array]:
    """Fit one model and return what it shows of every row; of a loss the log-odds.

    ``-log(p / (1 - p))`` is nearer to a Gaussian than ``-log p``.
    """
    model = clone(make_model) if hasattr(make_model, "get_params") else make_model()
    model = model.fit(X[seen]) if y is None else model.fit(X[seen], y[seen])
    name = choose_observation(model, observation, with_labels=y is not None)
    values = observe(model, X, y, name)
    if name == "loss":
        chances = np.clip(np.exp(-values), MIN_CHANCE, 1 - MIN_CHANCE)
        values = np.log1p(-chances) - np.log(chances)
    return name, values


def likelihood_ratios(values: Array, halves: NDArray[np.bool_]) -> Array:
    """Return the scores of every model and row, from all other models; variances are pooled."""
    known, means, variances = np.ones(values.shape, dtype=bool), [], []
    for taken in (halves, ~halves):
        own = np.where(taken, values, 0.0)
        counts = taken.sum(axis=0) - taken  # the model itself left out
        known &= counts > 0
        means.append((own.sum(axis=0) - own) / np.maximum(counts, 1))
        n = taken.sum(axis=0)
        squares = (np.where(taken, values - own.sum(axis=0) / n, 0.0) ** 2).sum()
        variances.append(max(float(squares / (n - 1).sum()), MIN_VARIANCE))
    ratio = (
        (values - means[1]) ** 2 / (2 * variances[1])
        - (values - means[0]) ** 2 / (2 * variances[0])
        + math.log(variances[1] / variances[0]) / 2
    )
    return np.where(known, ratio, 0.0)
