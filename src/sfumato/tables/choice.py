"""Categories from scores, at the shares that the scores have on average."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["choose_categories"]

Array = NDArray[np.float64]
MOST_SWEEPS = 20
SMALL_GAP = 1e-3  # between a share that is asked for and the one that is chosen


def choose_categories(scores: Array) -> NDArray[np.intp]:
    """Give each row the category of the highest ``score + offset``.

    Drawn from a Gaussian, the scores of a rare category have the right mean and hardly ever the
    highest value. Offsets are set so that every category is chosen as often as its scores say on
    average: in turn, the offset of one category is put where its share of rows prefers it to all
    others. One-hot rows need no offsets and come back as they are.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_categories)
        About 1 for the category of a row and 0 for the others, with any noise.

    Returns
    -------
    ndarray of shape (n_rows,)
        Number of the category of each row.
    """
    shares = np.maximum(scores.mean(axis=0), 0.0) if len(scores) else np.zeros(scores.shape[1])
    if not shares.sum() > 0:
        return np.asarray(scores.argmax(axis=1), dtype=np.intp)
    shares /= shares.sum()
    offsets = np.zeros(scores.shape[1])
    for _ in range(MOST_SWEEPS):
        moved = scores + offsets
        if _largest_gap(moved, shares) <= max(SMALL_GAP, 1 / len(scores)):
            break
        for category, share in enumerate(shares):
            moved[:, category] = -np.inf
            lead = moved.max(axis=1) - scores[:, category]  # the offset from which a row prefers it
            offsets[category] = np.quantile(lead, share)
            moved[:, category] = scores[:, category] + offsets[category]
    return np.asarray((scores + offsets).argmax(axis=1), dtype=np.intp)


def _largest_gap(scores: Array, shares: Array) -> float:
    chosen = np.bincount(scores.argmax(axis=1), minlength=len(shares)) / len(scores)
    return float(np.abs(chosen - shares).max())
