"""Base of the estimators without privacy: hulls and mappings of plain rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from sfumato.core.arrays import (
    Array,
    clip_to_finite,
    is_foreign_array,
    like,
    namespace_of,
    to_host,
    to_numpy,
)
from sfumato.core.constraints import COMMON_PARAMETERS, Form, check_parameters
from sfumato.core.documents import document
from sfumato.exceptions import InvalidInputError
from sfumato.tables.cells import checked_tensor

FLOATS = (np.float64, np.float32)
PRECISIONS = ("float64", "float32")
SHARED = {  # parameters of several estimators
    "$layers": """n_components : int, default=20
        Subspace dimension n of the first layer; each further layer has one less. Capped by the
        rank of the rows.
    n_layers : int, default=5
        Number of layers L.
    inducing_ratio : float, default=0.5
        Largest number of inducing points of the first layer, as a share of the rows, r_max.
    kappa : float, default=0.1
        Smallest tau(M, 1), see `MembershipMapping`.
    center : bool, default=True
        Subtract the mean first; as printed (False), outputs are drawn towards zero.
    $precision
    random_state : int, RandomState or None, default=None
        Starts of all k-means.""",
    "$wide": """n_components : int, default=20
        Subspace dimension n; capped by the rank of each branch.
    n_layers : int, default=5
        Number of layers L; capped by the subspace dimension. One layer is often as accurate and
        several times as fast.
    branch_size : int, default=1000
        Rows per branch on average.
    partition : {"kmeans", "random"}, default="kmeans"
        How rows are cut into branches. Where noise dominates the rows, "random" serves better:
        clusters of noise surround the data instead of following them.
    $precision
    $work
    random_state : int, RandomState or None, default=None
        Starts of the k-means, or the random partition.""",
    "$precision": """dtype : {"float64", "float32"}, default="float64"
        Precision of the stored model and of its answers. The fit is always in double precision.""",
    "$work": """n_jobs : int, optional
        Workers for branches and for batches of queries, see joblib.""",
}


@contextmanager
def values_unquoted() -> Iterator[None]:
    """Turn errors of scikit-learn into ours, without the value that one of them quotes."""
    try:
        yield
    except ValueError as error:
        text = "Rows and targets must contain numbers; one of them is a text."
        known = "could not convert" not in str(error)
        raise InvalidInputError(str(error) if known else text) from None


class RowsEstimator(BaseEstimator):
    """Base of estimators of plain rows: dataclasses, whose tables say what is expected of them.

    `parameters` checks the constructor's values; with `learned`, it checks stored models.
    """

    parameters: ClassVar[Form] = {}
    learned: ClassVar[Form] = {}
    stored_form: ClassVar[Form] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        document(cls, SHARED)
        found = {name: check for name, check in COMMON_PARAMETERS.items() if hasattr(cls, name)}
        for kind in reversed(cls.__mro__):
            found |= vars(kind).get("parameters", {})
        cls.parameters = found
        cls.stored_form = {**cls.parameters, **cls.learned}

    def _begin(self, X: Any) -> Array:
        """Check parameters and rows; return the rows."""
        check_parameters(self, self.parameters)
        return self._check_rows(X, reset=True)

    def _queries(self, X: Any) -> Array:
        """Return rows of the width of the fit, none too large."""
        check_is_fitted(self)
        return clip_to_finite(self._check_rows(X, reset=False))

    def _check_rows(self, X: Any, *, reset: bool) -> Array:
        """Return finite rows: an ndarray, or a tensor where a tensor was given."""
        if is_foreign_array(X):
            tensor = checked_tensor(self, X, reset=reset)
            if not bool(namespace_of(X).all(namespace_of(X).isfinite(tensor))):
                raise InvalidInputError("Input X contains NaN or infinity.")
            return tensor
        with values_unquoted():
            return validate_data(self, X, reset=reset, dtype=FLOATS)

    def _targets(self, rows: Array, y: Any, **options: Any) -> NDArray[Any]:
        """Return one label or output for each row, checked as `check_X_y` does."""
        with values_unquoted():
            return np.asarray(check_X_y(np.zeros((rows.shape[0], 1)), to_host(y), **options)[1])


class RowsTransformer(OneToOneFeatureMixin, TransformerMixin, RowsEstimator):
    """Base of transformers, whose answers have the precision `dtype`; `_fit_rows` learns."""

    dtype: str

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn from the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Not used.

        $self
        """
        self._fit_rows(self._begin(X))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags


class RowsClassifier(ClassifierMixin, RowsEstimator):
    """Base of classifiers by the least error of a class; `_fit_classes` learns."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels of any type; a class may have a single row.

        $self
        """
        rows = self._begin(X)
        found = self._targets(rows, y)
        with values_unquoted():
            check_classification_targets(found)
        self.classes_, codes = np.unique(found, return_inverse=True)
        self._fit_classes(rows, codes)
        return self

    @abstractmethod
    def _errors(self, rows: Array) -> Array:
        """Return a number for each row and class, of which the least decides."""

    def predict(self, X: Any) -> Array:
        """Return the label of the class with the least error.

        $rows
        array of shape (n_samples,)
            Labels; a tensor for a tensor when they are numbers.
        """
        least = np.argmin(to_numpy(self._errors(self._queries(X))), axis=1)
        found = self.classes_[least]
        return like(X, found) if is_foreign_array(X) and found.dtype.kind in "biuf" else found


def least_per_class(found: Array, owners: NDArray[np.intp]) -> Array:
    """Return the least of each row's numbers over the columns of each class; owners are sorted."""
    xp = namespace_of(found)
    ends = np.searchsorted(owners, np.arange(int(owners[-1]) + 2)).tolist()
    least = [xp.min(found[:, a:b], axis=1) for a, b in pairwise(ends)]
    return xp.stack(least, axis=1)
