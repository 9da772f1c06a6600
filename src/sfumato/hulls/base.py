"""What the hulls of one branch share: a folded model that maps points and measures distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from sfumato.hulls.branch import Branch, fit_branch
from sfumato.hulls.evaluation import distance, image
from sfumato.hulls.rows import check_choice, check_count, check_queries, check_rows
from sfumato.hulls.search import evaluate
from sfumato.kernels.arrays import Array, like

__all__ = ["PRECISIONS", "BranchHull"]

PRECISIONS = ("float64", "float32")


class BranchHull(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of `KernelAffineHull` and `DeepAffineHull`; not meant to be used by itself."""

    n_components: int
    dtype: str
    hull_: Branch
    n_components_: int

    def transform(self, X: Any) -> Array:
        """Give the image of each row; the mean of the training rows where there is none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        return self._answer(image, X, gives_rows=True)

    def distance(self, X: Any) -> Array:
        """Give the distance from each row to its image; infinite where there is none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        return self._answer(distance, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags

    def _fit_hull(self, X: Any, *, n_layers: int) -> None:
        self.hull_ = fit_branch(
            check_rows(self, X),
            n_components=check_count("n_components", self.n_components),
            n_layers=check_count("n_layers", n_layers),
            dtype=check_choice("dtype", self.dtype, PRECISIONS),
        )
        self.n_components_ = self.hull_["n_components"]

    def _answer(
        self, function: Callable[[Branch, Array], Array], X: Any, *, gives_rows: bool = False
    ) -> Array:
        rows = check_queries(self, X)
        return like(X, evaluate(self.hull_, function, rows, gives_rows=gives_rows))
