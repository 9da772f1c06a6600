"""What a fitted transfer answers: errors of each term, labels, and which term decided."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sfumato.guarantee import Mode
from sfumato.kernels.arrays import is_foreign, moderate, to_numpy
from sfumato.mappings.gaussians import coordinates_of, log_joint
from sfumato.mappings.printed import all_errors, source_to_target_errors
from sfumato.mappings.source import TransferSource

__all__ = ["TransferAnswers", "sound_rows", "standardised"]

Array = NDArray[Any]
LARGEST_WEIGHT = 0.25  # of the source beside the target


class TransferAnswers(TransferSource):
    """Base of `PrivateTransferClassifier`: everything that answers."""

    use_source: bool
    target_classifier_: Any
    source_weight_: float

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Give the label of the class with the least combined error.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target's space, or of the source's where no target was given.
        """
        found = self._combined(self.terms(X)).argmin(axis=1)
        return np.asarray(self.classes_[found])

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Give minus the combined error of each class; with two classes, their difference.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        errors = self._combined(self.terms(X))
        return errors[:, 0] - errors[:, 1] if errors.shape[1] == 2 else -errors

    def terms(self, X: ArrayLike) -> dict[str, NDArray[np.float64]]:
        """Give the errors of each row under each class, one matrix for each term.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        dict of ndarray of shape (n_samples, n_classes)
            "target", "source_to_target" and "source", as in equation (87). Errors are squared
            distances, but those of Gaussians (both source terms of mode "strict") are minus twice
            a log-density. "source" needs features in common; without a target it is all there is.
        """
        check_is_fitted(self, "source_mode_")
        rows = self._check_queries(X)
        if self.mode == Mode.PAPER:
            return self._printed_terms(rows)
        found = {}
        if hasattr(self, "target_classifier_"):
            points = self._target_points(rows)
            found["target"] = all_errors(self.target_classifier_, points, len(self.classes_))
            if self.use_source:
                found["source_to_target"] = -2 * self._adapted_scores(rows)
        elif hasattr(self, "target_"):  # the target's own release
            coordinates = coordinates_of(self.target_, self._source_rows(rows))
            found["target"] = -2 * log_joint(self.target_, coordinates)
        if "target" not in found or (self.use_source and self._common_features()):
            found["source"] = -2 * self._source_scores(rows)
        return found

    def winners(self, X: ArrayLike) -> dict[str, int]:
        """Count the rows that each term decides.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        terms = self.terms(X)
        if self.mode == Mode.PAPER:
            least = np.array([errors.min(axis=1) for errors in terms.values()]).argmin(axis=0)
            return {name: int(np.sum(least == i)) for i, name in enumerate(terms)}
        together = self._combined(terms).argmin(axis=1)
        alone = next(iter(terms.values())).argmin(axis=1)
        agreeing = int(np.sum(alone == together))
        return {next(iter(terms)): agreeing, self._voter(terms): len(together) - agreeing}

    def _combined(self, terms: dict[str, Array]) -> Array:
        """Equation (87), or the sum of standardised errors with the weight of the source."""
        if len(terms) == 1 or self.mode == Mode.PAPER:
            return np.asarray(np.min(list(terms.values()), axis=0))
        vote = standardised(terms[self._voter(terms)])
        return standardised(terms["target"]) + self.source_weight_ * vote

    def _voter(self, terms: dict[str, Array]) -> str:
        """The term that is heard beside the target's."""
        return "source_to_target" if "source_to_target" in terms else "source"

    def _printed_terms(self, rows: Array) -> dict[str, Array]:
        n_classes = len(self.classes_)
        if not hasattr(self, "target_classifier_"):
            there = self._source_rows(rows)
            return {"source": all_errors(self.source_classifier_, there, n_classes)}
        points = self._printed_points(rows)
        found = {"target": all_errors(self.target_classifier_, points, n_classes)}
        if self.use_source:
            there = self._in_source_space(points)
            found["source_to_target"] = source_to_target_errors(
                self.source_classifier_, self.source_to_target_, there, n_classes
            )
            found["source"] = all_errors(self.source_classifier_, there, n_classes)
        return found

    # Spaces ---------------------------------------------------------------------------------

    def _check_queries(self, X: Any) -> Array:
        rows = self._check_rows(to_numpy(X) if is_foreign(X) else X, reset=False)
        if not hasattr(self, "target_classifier_"):
            return rows  # they will be clipped to the bounds of the source
        return sound_rows(rows, getattr(self, "target_centre_", np.zeros(rows.shape[1])))

    def _common_features(self) -> bool:
        return bool(self.n_source_features_ == self.n_features_in_)

    def _target_points(self, rows: Array) -> Array:
        """Principal coordinates of the target."""
        return np.asarray((rows - self.target_centre_) @ self.target_directions_)

    def _adapted_space(self, rows: Array) -> Array:
        """Where the moved Gaussians live: the source's coordinates if they began there."""
        if self.start_ == "source":
            return coordinates_of(self.source_, self._source_rows(rows))
        return self._target_points(rows)

    def _adapted_scores(self, rows: Array) -> Array:
        return log_joint(self.adapted_, self._adapted_space(rows))

    def _earned_weight(
        self, rows: Array, codes: NDArray[np.intp], labelled: NDArray[np.bool_]
    ) -> float:
        """``max(0, 2a - 1)² / 4``, a the share of rows that both terms label alike."""
        if not self.use_source:
            return 0.0
        asked = ~labelled if not labelled.all() else labelled
        alike = self._adapted_scores(rows[asked]).argmax(axis=1) == codes[asked]
        return LARGEST_WEIGHT * max(0.0, 2 * float(alike.mean()) - 1) ** 2

    def _printed_points(self, rows: Array) -> Array:
        """Target rows where the printed target classifier works (79)."""
        if self._common_features():
            return self._source_rows(rows)
        return np.asarray(rows @ self.target_directions_)

    def _in_source_space(self, points: Array) -> Array:
        if self._common_features():
            return points
        return np.asarray(points @ self.source_directions_[: points.shape[1]])


def sound_rows(rows: Array, default: Array) -> Array:
    """Give rows of an unprotected target, which has no bounds, without numbers that overflow.

    A row with missing or infinite numbers becomes the default.
    """
    whole = np.isfinite(rows).all(axis=1, keepdims=True)
    return np.asarray(moderate(np.where(whole, rows, default)))


def standardised(errors: Array) -> Array:
    """Errors of each row less their mean over the classes, by their standard deviation."""
    finite = np.isfinite(errors)
    worst = np.where(finite, errors, -np.inf).max(axis=1, keepdims=True)
    filled = np.where(finite, errors, worst)
    away = filled - filled.mean(axis=1, keepdims=True)
    spread = away.std(axis=1, keepdims=True)
    return np.asarray(away / np.where(spread > 0, spread, 1.0))
