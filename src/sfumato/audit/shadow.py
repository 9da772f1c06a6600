"""The likelihood-ratio attack with shadow models (Carlini et al. 2022).

Every row is in the training half of some shadow models and outside that of the others. What a
model shows of the row is compared with both groups:

online   ``log N(v; mean_in, s²) - log N(v; mean_out, s²)``
offline  ``(mean_out - v) / s``, which needs no model that has seen the row
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from sfumato.audit.attack import LOW_RATES, MembershipAttack, attack_from_values
from sfumato.audit.observed import choose_observation, observe
from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]
MIN_VARIANCE = 1e-12
MIN_CHANCE = 1e-4  # a probability beyond this or its complement counts as this


def shadow_attack(
    make_model: Any,
    X: ArrayLike,
    y: ArrayLike | None = None,
    n_models: int = 16,
    *,
    online: bool = True,
    observation: str | None = None,
    rates: Sequence[float] = LOW_RATES,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    verbose: bool = False,
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
    online : bool, default=True
        Whether models that have seen the row are used as well (stronger).
    observation : str, optional
        What the attacker sees, see `membership_attack`. A loss is taken as log-odds.
    rates : sequence of float
        See `membership_attack`.
    confidence : float, default=0.95
        See `membership_attack`.
    n_jobs : int, optional
        Workers, see joblib.
    verbose : bool, default=False
        Show a progress bar.
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
    halves = _halves(len(rows), n_models, check_random_state(random_state))
    task = partial(_shadow, make_model, rows, labels, observation)
    title = "shadow models" if verbose else None
    found = map_in_parallel(task, list(halves), n_jobs=n_jobs, progress=title)
    name, values = found[0][0], np.stack([each[1] for each in found])
    scores = _online(values, halves) if online else _offline(values, halves)
    scores = np.round(scores, 9)  # equal values must tie: roundings differ between the groups
    return attack_from_values(
        -scores[halves],
        -scores[~halves],
        observation=f"likelihood ratio of the {name} ({'on' if online else 'off'}line)",
        rates=rates,
        confidence=confidence,
        repeats=n_models // 2,
        random_state=random_state,
    )


def _halves(n_rows: int, n_models: int, generator: Any) -> NDArray[np.bool_]:
    """Return for each model the rows it is fitted on; each row is seen by half of the models."""
    order = np.argsort(generator.random_sample((n_models, n_rows)), axis=0)
    return np.asarray(order < n_models // 2)


def _shadow(
    make_model: Any, X: Any, y: Any, observation: str | None, seen: NDArray[np.bool_]
) -> tuple[str, Array]:
    """Fit one model and return what it shows of every row."""
    model = clone(make_model) if hasattr(make_model, "get_params") else make_model()
    model = model.fit(X[seen]) if y is None else model.fit(X[seen], y[seen])
    name = choose_observation(model, observation, with_labels=y is not None)
    values = observe(model, X, y, name)
    return name, _log_odds(values) if name == "loss" else values


def _log_odds(losses: Array) -> Array:
    """Turn ``-log p`` to ``-log(p / (1 - p))``, which is nearer to a Gaussian."""
    chances = np.clip(np.exp(-losses), MIN_CHANCE, 1 - MIN_CHANCE)
    return np.asarray(np.log1p(-chances) - np.log(chances))


def _online(values: Array, halves: NDArray[np.bool_]) -> Array:
    """Log-likelihood ratios of every model and row, from all other models."""
    inside, n_in = _mean_without_own(values, halves)
    outside, n_out = _mean_without_own(values, ~halves)
    variances = [_pooled_variance(values, halves), _pooled_variance(values, ~halves)]
    known = (n_in > 0) & (n_out > 0)
    ratio = (
        (values - outside) ** 2 / (2 * variances[1])
        - (values - inside) ** 2 / (2 * variances[0])
        + math.log(variances[1] / variances[0]) / 2
    )
    return np.where(known, ratio, 0.0)


def _offline(values: Array, halves: NDArray[np.bool_]) -> Array:
    outside, n_out = _mean_without_own(values, ~halves)
    spread = math.sqrt(_pooled_variance(values, ~halves))
    return np.where(n_out > 0, (outside - values) / spread, 0.0)


def _mean_without_own(values: Array, taken: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Mean over the taken models of each row, the model itself left out; and how many they are."""
    own = np.where(taken, values, 0.0)
    counts = taken.sum(axis=0) - taken
    return (own.sum(axis=0) - own) / np.maximum(counts, 1), counts


def _pooled_variance(values: Array, taken: NDArray[np.bool_]) -> float:
    n = taken.sum(axis=0)
    own = np.where(taken, values, 0.0)
    mean = own.sum(axis=0) / n
    squares = (np.where(taken, values - mean, 0.0) ** 2).sum()
    return max(float(squares / (n - 1).sum()), MIN_VARIANCE)
