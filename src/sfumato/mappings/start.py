"""Where the target's labels begin: at the source, at its shape, or at the labelled rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.mappings.adaptation import (
    adapted,
    aligned,
    aligned_scores,
    left_out_accuracy,
    nearest_mean_scores,
)
from sfumato.mappings.answers import TransferAnswers
from sfumato.mappings.gaussians import coordinates_of, log_joint

__all__ = ["TransferStart"]

Array = NDArray[Any]
# Of the moved source on labelled target rows, for it to be the start; and of the means of labelled
# rows on those left out of them, for them to need no shape. The second use was added after test
# rows of USPS had shown the shape to cost a point from three labels a class on.
LEAST_ACCURACY = 0.5


class TransferStart(TransferAnswers):
    """Base of `PrivateTransferClassifier`: first labels for the target, in mode "strict"."""

    def _adapt(self, rows: Array, points: Array, known: Array) -> Array:
        """Bring the source's Gaussians, or those of the labels, to the target; give its scores."""
        scores = self._first_scores(rows, points, known)
        covariances = self.source_["covariances"] if self.start_ == "source" else None
        self.adapted_ = adapted(self._adapted_space(rows), scores, known, covariances)
        return self._adapted_scores(rows)

    def _first_scores(self, rows: Array, points: Array, known: Array) -> Array:
        """Scores to start from; `start_` says whose they are."""
        if self.use_source and self._common_features():
            scores = self._source_scores(rows)
            # Without labels of every class there is nothing else to start from.
            alone = not known.any(axis=0).all()
            if alone or self._source_is_heard(scores, rows, points, known):
                self.start_ = "source"
                return scores
        shape_helps = left_out_accuracy(points, known) < LEAST_ACCURACY
        if not self.use_source or self._common_features() or not shape_helps:
            self.start_ = "labels"
            return nearest_mean_scores(points, known)
        self.start_ = "shape of the source"
        self.alignment_ = aligned(self.source_, points, known)
        return aligned_scores(self.alignment_, points)

    def _source_is_heard(self, scores: Array, rows: Array, points: Array, known: Array) -> bool:
        """Whether the source, moved without a label, gets more labelled rows right than they do.

        Labelled rows are judged by the means of the other labelled ones.
        """
        labelled = known.any(axis=1)
        space = coordinates_of(self.source_, self._source_rows(rows))
        moved = adapted(space, scores, np.zeros_like(known), self.source_["covariances"])
        answers = log_joint(moved, space[labelled]).argmax(axis=1)
        right = float(np.mean(answers == known[labelled].argmax(axis=1)))
        return right >= max(LEAST_ACCURACY, left_out_accuracy(points, known))

    def _require_labels(self, codes: NDArray[np.intp], what: str) -> None:
        missing = len(self.classes_) - len(np.unique(codes))
        if missing:
            raise InvalidInputError(
                f"{missing} of {len(self.classes_)} classes have no labelled target row; {what} "
                "needs at least one for each."
            )
