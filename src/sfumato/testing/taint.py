"""The taint test: hold the released values fixed, change the rows, and compare to the bit."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from sfumato.mechanisms.entropy import seeded
from sfumato.mechanisms.tape import taped
from sfumato.testing.case import fit
from sfumato.testing.inspection import equal_to_the_bit, leaves

__all__ = ["require", "taint_test"]


def taint_test(estimator: Any, X: Any, X_other: Any, y: Any = None, y_other: Any = None) -> None:
    """Show that nothing after the releases reads the rows.

    The estimator is fitted on `X`, `y` with its releases recorded, then on `X_other`, `y_other`
    with the same released values played back: all it has learned must be equal to the bit.

    Parameters
    ----------
    estimator : object
        The estimator.
    X : array-like of shape (n_samples, n_features)
        Rows.
    X_other : array-like of shape (n_samples, n_features)
        Other rows, in the same number.
    y : array-like, optional
        Labels.
    y_other : array-like, optional
        Other labels.

    Raises
    ------
    AssertionError
        Naming the attribute that still depends on the rows.
    """
    y_other = y if y_other is None else y_other
    with seeded(0), taped() as tape:
        first = fit(clone(estimator), X, y)
    require(bool(tape.releases), "Nothing was released through a mechanism.")
    with seeded(0), taped(playback=tape) as replay:
        second = fit(clone(estimator), X_other, y_other)
    require(
        len(tape.releases) == len(replay.releases), "The number of releases depends on the rows."
    )
    before, after = dict(leaves(first)), dict(leaves(second))
    require(before.keys() == after.keys(), "What is learned depends on the rows.")
    for path, value in before.items():
        require(
            equal_to_the_bit(value, after[path]),
            f"{path} depends on the rows beyond the released values.",
        )


def require(holds: bool, sentence: str) -> None:
    """Raise AssertionError with `sentence` unless it holds; unlike assert, never optimised away."""
    if not holds:
        raise AssertionError(sentence)
