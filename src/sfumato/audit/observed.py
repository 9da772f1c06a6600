"""What an attacker sees of a row: one number from a model, small for the rows it was fitted on.

==============  ==================================================================================
observation     number
==============  ==================================================================================
``distance``    least distance to the hulls of the classes, equation (67)
``loss``        ``-log p(label)`` of the row's own label
``margin``      minus the score of the row's own label less that of the best other label
``confidence``  minus the largest score less the second, where labels are not known
``density``     minus the log-density of the row
==============  ==================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.arrays import to_numpy
from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]

OBSERVATIONS = ("distance", "loss", "margin", "confidence", "density")
MIN_PROBABILITY = 1e-12  # of a probability


def observe(model: Any, X: ArrayLike, y: ArrayLike | None, observation: str) -> Array:
    """Return the number of each row."""
    if observation in ("loss", "margin") and y is None:
        raise InvalidInputError(f"The observation {observation!r} needs the labels of the rows.")
    values = np.asarray(to_numpy(_SEEN[observation](model, X, y)), dtype=np.float64)
    if not np.isfinite(values).all():
        raise InvalidInputError(f"The model gives some rows no finite {observation}.")
    return values


def choose_observation(model: Any, observation: str | None, *, with_labels: bool) -> str:
    """Return the observation asked for, or the first that the model offers."""
    offered = [name for name in OBSERVATIONS if _is_offered(model, name, with_labels)]
    if observation is None:
        if not offered:
            raise InvalidInputError(
                f"{type(model).__name__} reveals nothing about a row: it needs 'distances', "
                "'predict_proba', 'decision_function' or 'score_samples'."
            )
        return offered[0]
    if observation not in OBSERVATIONS:
        raise InvalidInputError(
            f"'observation' must be one of {OBSERVATIONS}. Got {observation!r} instead."
        )
    if observation not in offered:
        raise InvalidInputError(
            f"{type(model).__name__} does not offer the observation {observation!r}"
            + ("." if with_labels else ", or labels are missing for it.")
        )
    return observation


def _is_offered(model: Any, name: str, with_labels: bool) -> bool:
    if name in ("loss", "margin") and not with_labels:
        return False
    if name in ("loss", "margin", "confidence") and not hasattr(model, "classes_"):
        return False  # a mixture has chances too, but not of labels
    return any(hasattr(model, method) for method in _METHODS[name])


_SCORES = ("decision_function", "predict_proba")
_METHODS = {
    "distance": ("distances", "distance"),
    "loss": ("predict_proba",),
    "margin": _SCORES,
    "confidence": _SCORES,
    "density": ("score_samples",),
}


def _distance(model: Any, X: ArrayLike, _: Any) -> Any:
    ask = getattr(model, "distances", None) or model.distance
    found = to_numpy(ask(X))
    return found.min(axis=1) if found.ndim == 2 else found


def _loss(model: Any, X: ArrayLike, y: Any) -> Any:
    chances = np.asarray(model.predict_proba(X))
    own = chances[np.arange(len(chances)), _columns(model, y)]
    return -np.log(np.maximum(own, MIN_PROBABILITY))


def _margin(model: Any, X: ArrayLike, y: Any) -> Any:
    scores = _class_scores(model, X)
    rows, own = np.arange(len(scores)), _columns(model, y)
    mine = scores[rows, own]
    scores[rows, own] = -np.inf
    return scores.max(axis=1) - mine


def _confidence(model: Any, X: ArrayLike, _: Any) -> Any:
    best = np.sort(_class_scores(model, X), axis=1)
    return best[:, -2] - best[:, -1]


def _density(model: Any, X: ArrayLike, _: Any) -> Any:
    return -np.asarray(model.score_samples(X))


_SEEN = {
    "distance": _distance,
    "loss": _loss,
    "margin": _margin,
    "confidence": _confidence,
    "density": _density,
}


def _class_scores(model: Any, X: ArrayLike) -> Array:
    method = next(name for name in _SCORES if hasattr(model, name))
    scores = np.array(to_numpy(getattr(model, method)(X)), dtype=np.float64)
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores


def _columns(model: Any, y: ArrayLike) -> NDArray[np.intp]:
    labels = np.asarray(y)
    columns = np.searchsorted(model.classes_, labels).clip(max=len(model.classes_) - 1)
    if not np.array_equal(np.asarray(model.classes_)[columns], labels):
        raise InvalidInputError("Some labels are unknown to the model.")
    return np.asarray(columns, dtype=np.intp)
