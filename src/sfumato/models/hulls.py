"""Kernel affine hulls: the shape of a set of rows as the image of a bounded map.

KernelAffineHull has one layer, DeepAffineHull several, WideAffineHull several branches;
AffineHullClassifier finds the class with the nearest hull. What is computed stands in
`models/hull_search.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import Array, like, namespace_of, to_numpy
from sfumato.core.constraints import Form, labels, list_of, model_of, one_of, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.hull_search import (
    PARTITIONS,
    Branch,
    answer_by_number,
    branch_distances,
    cut_rows,
    evaluate,
    fit_branch,
    fit_branches,
    image,
    stored_branch,
)
from sfumato.models.rows import (
    PRECISIONS,
    RowsClassifier,
    RowsEstimator,
    RowsTransformer,
    least_per_class,
)


class _Hull(RowsTransformer):
    """What hulls share: images and distances of points under one or several branches."""

    def _branches(self) -> list[Branch]:
        return [self.hull_]

    def transform(self, X: Any) -> Array:
        """Return the image of each row; the mean of the training rows where there is none.

        Of several branches the nearest gives it.

        $rows
        array of shape (n_samples, n_features)
            Images.
        """
        rows, branches = self._queries(X), self._branches()
        nearest = np.zeros(int(rows.shape[0]), dtype=np.intp)
        if len(branches) > 1:
            distances = branch_distances(branches, rows, n_jobs=self.n_jobs)
            nearest = np.argmin(to_numpy(distances), axis=1)
        found = answer_by_number(
            nearest,
            like(branches[0]["mean"], rows),
            lambda number, chosen: evaluate(branches[number], image, chosen),
        )
        return like(X, found)

    def distance(self, X: Any) -> Array:
        """Return the distance from each row to its image (60); infinite where there is none.

        $rows
        array of shape (n_samples,)
            Distances.
        """
        rows = self._queries(X)
        found = branch_distances(self._branches(), rows, n_jobs=getattr(self, "n_jobs", None))
        return like(X, namespace_of(found).min(found, axis=1))


class _OneBranch(_Hull):
    """A hull of one branch, of one layer or several."""

    n_components: int
    n_layers: int = 1
    hull_: Branch
    learned: ClassVar[Form] = {"hull_": stored_branch}

    def _fit_rows(self, rows: Array) -> None:
        self.hull_ = fit_branch(
            rows,
            n_components=self.n_components,
            n_layers=self.n_layers,
            dtype=self.dtype,
        )


@dataclass(eq=False, repr=False)
class KernelAffineHull(_OneBranch):
    r"""Map points onto the region that a set of rows fills inside its affine hull.

    .. math:: A(y) = \sum_i \frac{h_i(Py)}{\sum_j h_j(Py)}\, y_i, \qquad
              h(x) = (K + λ^* I)^{-1} k(x),

    where P projects on the first n principal directions of the rows, the kernel is Gaussian with
    their covariance, and λ* is the fixed point of the regularisation (equations 33 to 44 of [1]_).

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n; capped by the rank of the rows.
    $precision

    Attributes
    ----------
    hull_ : dict
        The folded model: plain arrays, no training rows unless they are wider than many. Its
        "n_components" are those in use (0 when all rows are one point, whose hull is that point);
        "regularization" is λ* of each layer.
    n_features_in_ : int

    Notes
    -----
    λ* grows with the squares of the rows while the kernel does not see their scale, so the map
    depends on scale and offset of the data. Scale features to [0, 1] as the authors do.

    The sum :math:`\sum_j h_j` is positive around the rows but not everywhere (Theorem 2 of the
    paper says otherwise and is wrong). Where it is not, a point has no image: its `distance` is
    infinite, and `transform` answers with the mean of the rows.

    References
    ----------
    .. [1] M. Kumar, B. A. Moser, L. Fischer, "On mitigating the utility-loss in differentially
       private learning: a new perspective by a geometrically inspired kernel approach", JAIR, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import KernelAffineHull
    >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    >>> circle = 0.5 + 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    >>> hull = KernelAffineHull(n_components=2).fit(circle)
    >>> hull.distance([[1.0, 0.5], [2.0, 0.5]]).round(2)
    array([0.01, 0.61])
    """

    n_components: int = 20
    _: KW_ONLY
    dtype: str = "float64"

    parameters: ClassVar[Form] = {"n_components": whole(least=1), "dtype": one_of(*PRECISIONS)}


@dataclass(eq=False, repr=False)
class DeepAffineHull(_OneBranch):
    r"""Pass points through hulls of dimension n, n - 1, ... and keep the nearest image.

    .. math:: M_l = A_{n-l+1} \circ \dots \circ A_n, \qquad
              D(y) = M_{\hat l}(y), \quad \hat l = \arg\min_{l \le L} \|y - M_l(y)\|.

    The notes of `KernelAffineHull` hold here as well.

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n of the first layer; capped by the rank of the rows.
    n_layers : int, default=5
        Number of layers L; capped by the subspace dimension.
    $precision

    Attributes
    ----------
    hull_ : dict
        The folded model, one principal basis for all layers.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import DeepAffineHull
    >>> rows = np.random.default_rng(0).random((60, 5))
    >>> hull = DeepAffineHull(n_components=4, n_layers=3).fit(rows)
    >>> hull.layer_images(rows[:2]).shape
    (2, 3, 5)
    """

    n_components: int = 20
    _: KW_ONLY
    n_layers: int = 5
    dtype: str = "float64"

    parameters: ClassVar[Form] = {**KernelAffineHull.parameters, "n_layers": whole(least=1)}

    def layer_images(self, X: Any) -> Array:
        """Return the image of each row under each layer (51).

        $rows
        array of shape (n_samples, n_layers, n_features)
            Images of each row under each layer.
        """
        return like(X, evaluate(self.hull_, image, self._queries(X), every_layer=True))


@dataclass(eq=False, repr=False)
class _ManyBranches(RowsEstimator):
    """The parameters of hulls of many branches."""

    n_components: int = 20
    _: KW_ONLY
    n_layers: int = 5
    branch_size: int = 1000
    partition: str = "kmeans"
    dtype: str = "float64"
    n_jobs: int | None = None
    random_state: Any = None

    parameters: ClassVar[Form] = {
        **DeepAffineHull.parameters,
        "branch_size": whole(least=1),
        "partition": one_of(*PARTITIONS),
    }

    def _fit_branches(
        self, rows: Array, codes: NDArray[np.intp] | None = None
    ) -> list[WideAffineHull]:
        """Cut the rows of each class into branches, fit each, and return one hull per class."""
        groups, owners = cut_rows(
            rows,
            codes,
            branch_size=self.branch_size,
            partition=self.partition,
            random_state=check_random_state(self.random_state),
        )
        words = ("n_components", "n_layers", "dtype", "n_jobs")
        branches = fit_branches(groups, **{name: getattr(self, name) for name in words})
        parameters = self.get_params(deep=False)
        ends = np.searchsorted(owners, np.arange(int(owners[-1]) + 2))
        return [wide_hull(branches[a:b], **parameters) for a, b in pairwise(ends)]


class WideAffineHull(_Hull, _ManyBranches):
    r"""Cut many rows into branches, fit a deep hull to each and keep the nearest image.

    .. math:: W(y) = D_{\hat s}(y), \quad \hat s = \arg\min_{s \le S} \|y - D_s(y)\|, \quad
              S = \lceil N / \text{branch size} \rceil .

    The time of `fit` is linear in the number of rows, since a branch does not grow.

    Parameters
    ----------
    $wide

    Attributes
    ----------
    branches_ : list of dict
        The folded model of each branch.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import WideAffineHull
    >>> rows = np.random.default_rng(0).random((90, 3))
    >>> hull = WideAffineHull(3, branch_size=30, random_state=0).fit(rows)
    >>> len(hull.branches_), hull.distance(rows).shape
    (3, (90,))
    """

    branches_: list[Branch]
    learned: ClassVar[Form] = {"branches_": list_of(stored_branch)}

    def _fit_rows(self, rows: Array) -> None:
        self.branches_ = self._fit_branches(rows)[0].branches_

    def _branches(self) -> list[Branch]:
        return self.branches_

    def merge(self, *others: WideAffineHull) -> WideAffineHull:
        """Return the hull with the branches of all: its distance is the least of theirs (101).

        Parameters
        ----------
        *others : WideAffineHull
            Fitted on rows of the same width, for example by other parties.

        Returns
        -------
        WideAffineHull
            The merged hull.
        """
        hulls = [self, *others]
        _require_alike(hulls)
        branches = [branch for hull in hulls for branch in hull.branches_]
        return wide_hull(branches, **self.get_params(deep=False))


def wide_hull(branches: list[Branch], **parameters: Any) -> WideAffineHull:
    """Return a hull around branches that were fitted elsewhere."""
    hull = WideAffineHull(**parameters)
    hull.branches_ = branches
    hull.n_features_in_ = int(branches[0]["mean"].shape[0])
    return hull


@dataclass(eq=False, repr=False)
class AffineHullClassifier(RowsClassifier, _ManyBranches):
    r"""Assign a point the label of the class whose wide hull has the nearest image.

    .. math:: \hat c(y) = \arg\min_c Γ_c(y), \qquad Γ_c(y) = \|y - W_c(y)\| .

    Parameters
    ----------
    $wide

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    hulls_ : list of WideAffineHull
        One per class, in the order of `classes_`.
    n_features_in_ : int

    Notes
    -----
    Scale features to [0, 1]. A point that has no image under a hull is infinitely far from it; one
    that has no image under any hull gets the first class.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import AffineHullClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AffineHullClassifier(random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> round(model.score(X[1200:] / 16, y[1200:]), 2)
    0.96
    """

    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "hulls_": list_of(model_of("WideAffineHull", n_features_in_="d"), size="c"),
    }

    def _fit_classes(self, rows: Array, codes: NDArray[np.intp]) -> None:
        self.hulls_ = self._fit_branches(rows, codes)

    def _errors(self, rows: Array) -> Array:  # the nearest hull (62)
        branches = [branch for hull in self.hulls_ for branch in hull.branches_]
        owners = np.repeat(np.arange(len(self.hulls_)), [len(h.branches_) for h in self.hulls_])
        return least_per_class(branch_distances(branches, rows, n_jobs=self.n_jobs), owners)

    def distances(self, X: Any) -> Array:
        """Return the distance from each row to its image under the hull of each class.

        $rows
        array of shape (n_samples, n_classes)
            Distances.
        """
        return like(X, self._errors(self._queries(X)))

    def decision_function(self, X: Any) -> Array:
        r"""Return the logarithm of the matching score, :math:`-Γ_c^2 / \sum_c Γ_c^2`.

        $rows
        array of shape (n_samples, n_classes), or (n_samples,) for two classes
            With two classes, the value of the second minus that of the first.
        """
        scores = self._log_matching(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def matching_score(self, X: Any) -> Array:
        r"""Return :math:`\exp(-Γ_c^2 / \sum_c Γ_c^2)`, between 1/e and 1 (63).

        $rows
        array of shape (n_samples, n_classes)
            Scores.
        """
        scores = self._log_matching(X)
        return namespace_of(scores).exp(scores)

    def predict_proba(self, X: Any) -> Array:
        """Return the matching scores divided by their sum.

        They order the classes but are no calibrated chances: with C classes none can pass
        ``1 / (1 + (C - 1) / e)``. Use `CalibratedClassifierCV` where chances are needed.

        $rows
        array of shape (n_samples, n_classes)
            Shares that sum to one.
        """
        scores = self.matching_score(X)
        return scores / namespace_of(scores).sum(scores, axis=1, keepdims=True)

    def merge(self, *others: AffineHullClassifier) -> AffineHullClassifier:
        """Return the classifier that knows the branches of all parties, class by class (104).

        Parameters
        ----------
        *others : AffineHullClassifier
            Fitted on rows of the same width; they may know other classes.

        Returns
        -------
        AffineHullClassifier
            The merged classifier.
        """
        parties = [self, *others]
        _require_alike(parties)
        merged: AffineHullClassifier = clone(self)
        merged.n_features_in_ = self.n_features_in_
        merged.classes_ = np.unique(np.concatenate([party.classes_ for party in parties]))
        merged.hulls_ = []
        known = [pair for each in parties for pair in zip(each.classes_, each.hulls_, strict=True)]
        for label in merged.classes_:
            first, *rest = [hull for of, hull in known if of == label]
            merged.hulls_.append(first.merge(*rest))
        return merged

    def _log_matching(self, X: Any) -> Array:
        """Return ``-Γ_c² / Σ Γ²``; infinite distances share the sum equally, as in the limit."""
        distances = self.distances(X)
        xp = namespace_of(distances)
        endless = xp.isinf(distances)
        zeros = xp.zeros_like(distances)
        # Dividing by the largest distance first keeps the squares from passing the largest float.
        scale = xp.max(xp.where(endless, zeros, distances), axis=1, keepdims=True)
        relative = distances / xp.where(scale > 0, scale, xp.ones_like(scale))
        has_endless = xp.any(endless, axis=1, keepdims=True)
        shares = xp.astype(endless, distances.dtype)
        squares = xp.where(has_endless, shares, relative * relative)
        total = xp.sum(squares, axis=1, keepdims=True)
        even = xp.full_like(squares, 1 / squares.shape[1])  # all distances zero
        return -xp.where(total > 0, squares / xp.where(total > 0, total, xp.ones_like(total)), even)


def _require_alike(estimators: Sequence[Any]) -> None:
    """Refuse to merge estimators that differ in the width of their rows or in precision."""
    for estimator in estimators:
        check_is_fitted(estimator)
    for words, name in (("number of features", "n_features_in_"), ("precision", "dtype")):
        found = sorted({getattr(estimator, name) for estimator in estimators})
        if len(found) > 1:
            raise InvalidInputError(f"Only hulls of the same {words} can be merged. Got {found}.")
