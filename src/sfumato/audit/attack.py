"""The threshold attack on membership: a row is called a member when its number is small enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv
from scipy.stats import norm, rankdata
from sklearn.utils import check_random_state

from sfumato.audit.intervals import check_confidence, interval, lower_limit, upper_limit
from sfumato.audit.membership import DIAGNOSTIC
from sfumato.audit.observed import choose_observation, observe
from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]
LOW_RATES = (0.01, 0.001)


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
    balanced_accuracy: Mean of true-positive and true-negative rate, threshold chosen on one half of
        the rows and judged on the other.
    true_positive_rates: At each false-positive rate.
    curve: False-positive and true-positive rates of the ROC curve.
    observation: What was thresholded.
    confidence: Of the intervals.
    n_members, n_non_members: Rows on either side.
    """

    auc: Estimate
    balanced_accuracy: Estimate
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
        return (
            f"Threshold on {self.observation}: AUC {self.auc}, balanced accuracy "
            f"{self.balanced_accuracy}; {rates}. {DIAGNOSTIC}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values, the curve at 200 points at most."""
        places = np.unique(np.linspace(0, len(self.curve[0]) - 1, 200).astype(int))
        return {
            "observation": self.observation,
            "confidence": self.confidence,
            "n_members": self.n_members,
            "n_non_members": self.n_non_members,
            "auc": vars(self.auc),
            "balanced_accuracy": vars(self.balanced_accuracy),
            "true_positive_rates": {
                f"{rate:g}": vars(found) for rate, found in self.true_positive_rates.items()
            },
            "curve": [self.curve[0][places].tolist(), self.curve[1][places].tolist()],
            "note": DIAGNOSTIC,
        }


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
    random_state: Any = 0,
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
    random_state : int, RandomState or None, default=0
        Which half of the rows chooses the threshold of the balanced accuracy.

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
        random_state=random_state,
    )


def attack_from_values(
    members: ArrayLike,
    non_members: ArrayLike,
    *,
    observation: str = "value",
    rates: Sequence[float] = LOW_RATES,
    confidence: float = 0.95,
    repeats: int = 1,
    random_state: Any = 0,
) -> MembershipAttack:
    """Run the threshold attack on numbers that are there, small for members."""
    check_confidence(confidence)
    inside, outside = (_values(n, v) for n, v in (("members", members), ("others", non_members)))
    if not all(0 < rate < 1 for rate in rates):
        raise InvalidInputError("'rates' must lie in (0, 1).")
    return MembershipAttack(
        auc=_auc(inside, outside, confidence, repeats),
        balanced_accuracy=_balanced_accuracy(inside, outside, confidence, repeats, random_state),
        true_positive_rates={
            float(rate): _rate_at(inside, outside, rate, confidence, repeats) for rate in rates
        },
        curve=_curve(inside, outside),
        observation=observation,
        confidence=confidence,
        n_members=len(inside) // repeats,
        n_non_members=len(outside) // repeats,
    )


def _values(name: str, values: ArrayLike) -> Array:
    found = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if len(found) < 4 or not np.isfinite(found).all():
        raise InvalidInputError(f"The numbers of the {name} must be finite, at least 4 of them.")
    return found


def _curve(inside: Array, outside: Array) -> tuple[Array, Array]:
    thresholds = np.unique(np.concatenate([inside, outside]))
    rates = [np.searchsorted(s, thresholds, side="right") / len(s) for s in (outside, inside)]
    return np.append(0.0, rates[0]), np.append(0.0, rates[1])


def _auc(inside: Array, outside: Array, confidence: float, repeats: int) -> Estimate:
    """Area under the curve with the variance of DeLong et al. (1988), from ranks."""
    m, n = len(inside), len(outside)
    together = rankdata(np.concatenate([inside, outside]))
    above = 1 - (together[:m] - rankdata(inside)) / n  # share of others above each member
    below = (together[m:] - rankdata(outside)) / m
    area = float(above.mean())
    variance = repeats * (above.var(ddof=1) / m + below.var(ddof=1) / n)
    reach = float(norm.ppf((1 + confidence) / 2)) * math.sqrt(variance)
    return Estimate(area, max(0.0, area - reach), min(1.0, area + reach))


def _balanced_accuracy(
    inside: Array, outside: Array, confidence: float, repeats: int, random_state: Any
) -> Estimate:
    generator = check_random_state(random_state)
    halves = [np.array_split(generator.permutation(s), 2) for s in (inside, outside)]
    false, true = _curve(np.sort(halves[0][0]), np.sort(halves[1][0]))
    thresholds = np.unique(np.concatenate([halves[0][0], halves[1][0]]))
    best = np.append(-np.inf, thresholds)[int(np.argmax(true - false))]
    hits = float((halves[0][1] <= best).sum()), float((halves[1][1] > best).sum())
    sizes = float(len(halves[0][1])), float(len(halves[1][1]))
    each = 1 - (1 - confidence) / 2  # both rates at once
    limits = [interval(k / repeats, n / repeats, each) for k, n in zip(hits, sizes, strict=True)]
    value = (hits[0] / sizes[0] + hits[1] / sizes[1]) / 2
    return Estimate(value, (limits[0][0] + limits[1][0]) / 2, (limits[0][1] + limits[1][1]) / 2)


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
