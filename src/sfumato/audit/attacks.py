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

The threshold attack calls a row a member when its number is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv
from scipy.stats import norm, rankdata

from sfumato.audit.empirical import lower_limit, upper_limit
from sfumato.core.arrays import to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.tables.bounds import label_places

Array = NDArray[np.float64]

DIAGNOSTIC = (
    "This diagnostic is measured on raw rows. It is not a guarantee and must not be published: "
    "that would spend privacy that no budget has paid for."
)
LOW_RATES = (0.01, 0.001)
CONFIDENCE = 0.95
MIN_PROBABILITY = 1e-12
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
    classifies = hasattr(model, "classes_")  # a mixture has chances too, but not of labels
    of_own_label = classifies and with_labels
    known = {"loss": of_own_label, "margin": of_own_label, "confidence": classifies}
    offered = [
        name
        for name, methods in OBSERVATIONS.items()
        if known.get(name, True) and any(hasattr(model, method) for method in methods)
    ]
    if observation is None:
        if not offered:
            raise InvalidInputError(
                f"{type(model).__name__} offers nothing to attack: it needs a method 'distances', "
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
    method = next((m for m in OBSERVATIONS[observation] if hasattr(model, m)), "")
    found = np.array(to_numpy(getattr(model, method)(X)), dtype=np.float64)
    if observation in ("margin", "confidence") and found.ndim == 1:
        found = np.stack([-found, found], axis=1)
    rows, own = np.arange(len(found)), np.zeros(len(found), dtype=np.intp)
    if y is not None and observation in ("loss", "margin"):
        own = label_places(np.asarray(model.classes_), y)
        if (own < 0).any():
            raise InvalidInputError("Some rows have no label that the model knows: leave them out.")
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
        raise InvalidInputError(f"For some rows the model's {observation} is not finite.")
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

    Returns
    -------
    MembershipAttack
        ROC curve, and figures with 95 % confidence intervals.
    """
    with_labels = y_members is not None and y_non_members is not None
    observation = choose_observation(model, observation, with_labels=with_labels)
    return attack_from_values(
        observe(model, members, y_members, observation),
        observe(model, non_members, y_non_members, observation),
        observation=observation,
    )


def attack_from_values(
    members: ArrayLike,
    non_members: ArrayLike,
    *,
    observation: str = "value",
    rates: Sequence[float] = LOW_RATES,
) -> MembershipAttack:
    """Run the threshold attack on numbers that are there, small for members."""
    sides = []
    for name, given in (("members", members), ("others", non_members)):
        values = np.sort(np.asarray(given, dtype=np.float64).ravel())
        if len(values) < 4 or not np.isfinite(values).all():
            raise InvalidInputError(f"An attack needs at least 4 {name} with finite numbers.")
        sides.append(values)
    inside, outside = sides
    # Area under the curve with the variance of DeLong et al. (1988), from ranks
    m, n = len(inside), len(outside)
    together = rankdata(np.concatenate([inside, outside]))
    above = 1 - (together[:m] - rankdata(inside)) / n  # share of others above each member
    below = (together[m:] - rankdata(outside)) / m
    area = float(above.mean())
    variance = above.var(ddof=1) / m + below.var(ddof=1) / n
    reach = float(norm.ppf((1 + CONFIDENCE) / 2)) * math.sqrt(variance)
    thresholds = np.unique(np.concatenate(sides))
    true, false = (np.searchsorted(side, thresholds, side="right") / len(side) for side in sides)
    return MembershipAttack(
        auc=Estimate(area, max(0.0, area - reach), min(1.0, area + reach)),
        true_positive_rates={rate: _rate_at(inside, outside, rate) for rate in rates},
        curve=(np.append(0.0, false), np.append(0.0, true)),
        observation=observation,
        confidence=CONFIDENCE,
        n_members=len(inside),
        n_non_members=len(outside),
    )


def _rate_at(inside: Array, outside: Array, rate: float) -> Estimate:
    """True-positive rate at a false-positive rate, with limits that need no assumption.

    The k-th smallest of n others has a false-positive rate of law Beta(k, n - k + 1): the lower
    limit takes a threshold that is surely strict enough, the upper one that is surely not.
    """
    risk = (1 - CONFIDENCE) / 4
    n, m = len(outside), len(inside)
    places = np.arange(1, n + 1)
    strict = int((betaincinv(places, n - places + 1, 1 - risk) <= rate).sum())
    loose = int((betaincinv(places, n - places + 1, risk) < rate).sum()) + 1

    def share_below(k: int) -> float:
        """Share of members below the others' (k+1)-th smallest number, where k others are."""
        return 1.0 if k >= n else float(np.searchsorted(inside, outside[k], side="left") / m)

    value = share_below(int(rate * n))
    least = share_below(strict - 1) if strict else 0.0
    most = share_below(loose - 1)
    return Estimate(
        value,
        min(value, float(lower_limit(least * m, m, risk))),
        max(value, float(upper_limit(most * m, m, risk))),
    )
