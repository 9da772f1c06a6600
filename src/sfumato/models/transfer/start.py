"""Where the target's labels begin: at the source, at its shape, or at the labelled rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.models.transfer.adaptation import (
    adapted,
    aligned,
    aligned_scores,
    left_out_accuracy,
    nearest_mean_scores,
)
from sfumato.models.transfer.gaussians import SourceGaussians, log_joint

Array = NDArray[Any]
SOURCE, SHAPE, LABELS = "source", "shape of the source", "labels"
# Of the moved source on labelled target rows, for it to be the start; and of the means of labelled
# rows on those left out of them, for them to need no shape. The second use was added after test
# rows of USPS had shown the shape to cost a point from three labels per class on.
MIN_ACCURACY = 0.5


def begin(
    source: SourceGaussians | None, there: Array | None, points: Array, known: Array
) -> tuple[str, dict[str, Array]]:
    """Bring the source's Gaussians, or those of the labels, to the target.

    source: The released Gaussians; None leaves them out.
    there: Target rows in the coordinates of the source, where both have the same features.
    points (n_rows, n_directions): Target rows in their own principal coordinates.
    known (n_rows, n_classes): One-hot for labelled rows and zero for the others.
    Returns: Whose labels came first, and Gaussians moved to the target: in `there` for `SOURCE`, in
        `points` else.
    """
    if source is not None and there is not None:
        scores = log_joint(source, there)
        # Without labels of every class there is nothing else to start from.
        alone = not known.any(axis=0).all()
        if alone or _is_heard(source, there, points, known):
            return SOURCE, adapted(there, scores, known, source["covariances"])
    shape_helps = left_out_accuracy(points, known) < MIN_ACCURACY
    if source is None or there is not None or not shape_helps:
        return LABELS, adapted(points, nearest_mean_scores(points, known), known, None)
    scores = aligned_scores(aligned(source, points, known), points)
    return SHAPE, adapted(points, scores, known, None)


def _is_heard(source: SourceGaussians, there: Array, points: Array, known: Array) -> bool:
    """Whether the source, moved without a label, gets more labelled rows right than they do.

    Labelled rows are judged by the means of the other labelled ones.
    """
    labelled = known.any(axis=1)
    moved = adapted(there, log_joint(source, there), np.zeros_like(known), source["covariances"])
    answers = log_joint(moved, there[labelled]).argmax(axis=1)
    right = float(np.mean(answers == known[labelled].argmax(axis=1)))
    return right >= max(MIN_ACCURACY, left_out_accuracy(points, known))
