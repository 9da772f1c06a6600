"""A lower bound on epsilon from one training run (Steinke, Nasr and Jagielski 2023).

Each of m canaries is in or out by the toss of a fair coin. The attacker guesses r of the coins and
is right v times. If training is (epsilon, delta)-private against the change of one coin, then

``P(right >= v) <= P(B >= v) + 2 m delta max_i P(v > B >= v - i) / i``

with B binomial of r trials at ``exp(epsilon) / (1 + exp(epsilon))``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import binom
from sklearn.utils import check_random_state

from sfumato.audit.attacks import choose_observation, observe
from sfumato.audit.empirical import check_confidence
from sfumato.exceptions import InvalidInputError

SHARES = (1.0, 0.5, 0.25, 0.1)  # of the canaries, on which a guess is dared
MAX_EPSILON = 40.0


@dataclass(frozen=True)
class OneRun:
    """A certified lower bound on epsilon from one run.

    epsilon: With the stated confidence, the true epsilon at `delta` is not below this figure.
    delta, confidence: At this delta, with this confidence.
    n_canaries, n_guesses, n_right: Coins, guesses and right guesses.
    largest: The bound if every guess had been right.
    claimed: The epsilon that was promised.
    """

    epsilon: float
    delta: float
    confidence: float
    n_canaries: int
    n_guesses: int
    n_right: int
    largest: float
    claimed: float | None = None

    @property
    def refutes(self) -> bool:
        """Whether more was certified than promised."""
        return self.claimed is not None and self.epsilon > self.claimed

    def __str__(self) -> str:
        verdict = "" if not self.refutes else f"REFUTED: epsilon {self.claimed:.4g} was promised. "
        return (
            f"{verdict}With confidence {self.confidence:g}, epsilon is at least {self.epsilon:.3g} "
            f"at delta {self.delta:g}: {self.n_right} of {self.n_guesses} guesses on "
            f"{self.n_canaries} canaries were right (all right would show {self.largest:.3g})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return {**vars(self), "refutes": self.refutes, "sentence": str(self)}


def audit_in_one_run(
    fit: Callable[..., Any],
    canaries: ArrayLike,
    *,
    y: ArrayLike | None = None,
    alternatives: ArrayLike | None = None,
    score: Callable[[Any, NDArray[Any]], ArrayLike] | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    claimed: float | None = None,
    random_state: Any = None,
) -> OneRun:
    """Put a random half of the canaries into one training run and guess which they were.

    Parameters
    ----------
    fit : callable
        ``fit(rows)``, or ``fit(rows, labels)`` with `y`, trains once on these canaries together
        with whatever else it trains on, and gives the model or the release.
    canaries : array-like of shape (n_canaries, n_features)
        Rows made for the audit, best such as move a model most.
    y : array-like, optional
        Their labels.
    alternatives : array-like of shape (n_canaries, n_features), optional
        What stands in the place of a canary that is left out, for promises of the relation
        "replace_one". Without it the canary is absent, for "add_or_remove_one".
    score : callable, optional
        ``score(model, canaries)`` gives a number for each, larger for those that were in. By
        default what the model shows of a row, see `membership_attack`.
    delta : float, default=0.0
        The delta at which epsilon is bounded.
    confidence : float, default=0.95
        Chance at least, that the bound is true.
    claimed : float, optional
        The epsilon that was promised, to be compared with.
    random_state : int, RandomState or None, default=None
        The coins.

    Returns
    -------
    OneRun
        The bound: the best over four numbers of guesses, the risk divided among them.
    """
    check_confidence(confidence)
    if not 0 <= delta < 1:
        raise InvalidInputError(f"'delta' must lie in [0, 1). Got {delta} instead.")
    rows = np.asarray(canaries)
    if len(rows) < 8:
        raise InvalidInputError(f"At least 8 canaries are needed. Got {len(rows)} instead.")
    coins = check_random_state(random_state).random_sample(len(rows)) < 0.5
    if alternatives is None:
        taken, labels = rows[coins], None if y is None else np.asarray(y)[coins]
    else:
        others = np.asarray(alternatives)
        if others.shape != rows.shape:
            raise InvalidInputError("'alternatives' must have the shape of 'canaries'.")
        taken = np.where(coins.reshape(-1, *[1] * (rows.ndim - 1)), rows, others)
        labels = None if y is None else np.asarray(y)
    model = fit(taken) if labels is None else fit(taken, labels)
    if score is not None:
        values = np.asarray(score(model, rows))
    else:
        shown = choose_observation(model, None, with_labels=y is not None)
        values = -observe(model, rows, y, shown)
    if values.shape != coins.shape or not np.isfinite(values).all():
        raise InvalidInputError("'score' must give one finite number for each canary.")
    risk = (1 - confidence) / len(SHARES)
    order, found = np.argsort(values, kind="stable"), []
    for share in SHARES:  # "in" for the largest numbers, "out" for the smallest, as many of either
        each = max(1, int(share * len(coins)) // 2)
        right = int(coins[order[-each:]].sum() + (~coins[order[:each]]).sum())
        found.append((_epsilon(len(coins), 2 * each, right, delta, risk), 2 * each, right))
    epsilon, guesses, right = max(found)
    return OneRun(
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        n_canaries=len(rows),
        n_guesses=guesses,
        n_right=right,
        largest=_epsilon(len(rows), len(rows), len(rows), delta, risk),
        claimed=claimed,
    )


def p_value(n_canaries: int, n_guesses: int, n_right: int, epsilon: float, delta: float) -> float:
    """Bound the chance of at least `n_right` right guesses against an (epsilon, delta) promise."""
    chance = 1 / (1 + math.exp(-epsilon))
    pure = float(binom.sf(n_right - 1, n_guesses, chance))
    steps = np.arange(1, n_right + 1)
    below = np.cumsum(binom.pmf(n_right - steps, n_guesses, chance)) / steps
    slip = 2 * n_canaries * delta * float(below.max()) if n_right else 0.0
    return min(1.0, pure + slip)


def _epsilon(n_canaries: int, guesses: int, right: int, delta: float, risk: float) -> float:
    """Largest epsilon whose p-value stays at or below the risk; p-values grow with epsilon."""

    def excess(epsilon: float) -> float:
        return p_value(n_canaries, guesses, right, epsilon, delta) - risk

    if excess(0.0) > 0:
        return 0.0
    if excess(MAX_EPSILON) <= 0:
        return MAX_EPSILON
    return float(brentq(excess, 0.0, MAX_EPSILON, xtol=1e-6)) - 1e-6
