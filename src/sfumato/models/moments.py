"""Private principal components, class moments and a Gaussian classifier, from noisy moments."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from sfumato.core.constraints import Form, integers, labels, numbers, one_of, or_none, real, whole
from sfumato.models.base import Array, PrivateClassifier, PrivateEstimator
from sfumato.models.gaussians import (
    CentredGaussians,
    ClassGaussianSums,
    gaussians_from_moments,
    stored_gaussians,
)
from sfumato.models.linear import top_eigenvectors
from sfumato.sums.statistics import ClassMoments, SecondMoment

# Weight w of the constant in `PrivateMoments`. The noise of means is least at w = 1 and hardly more
# here (0.9 %), that of second moments falls with 1 + w² (by 12 %).
CONSTANT = 7 / 8


@dataclass(eq=False, repr=False)
class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Top eigenvectors of ``sum (x - c)(x - c)ᵀ + noise``, c the centre of the bounds.

    Parameters
    ----------
    n_components : int, default=20
        Directions kept; capped at the number of features.
    $shared

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions, the largest (algebraic) eigenvalue first.
    eigenvalues_ : ndarray of shape (n_components,)
        Their noisy eigenvalues.
    centre_ : ndarray of shape (n_features,)
        The public centre c.
    $guarantee

    Privacy
    -------
    Unit and relation : record or person; replace_one or add_or_remove_one.
    Released : ``M = sum z zᵀ`` of rows scaled into the unit ball, with symmetric Gaussian noise.
    Sensitivity : ``√2`` (replace) or 1 (add or remove) in Frobenius norm.
    Guarantee : mu-GDP by the Gaussian mechanism, hence (epsilon, delta).
    Assumptions and numerics : bounds are public; sums are exact, noise is float-safe. Proof:
        docs/guarantees/pca.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivatePCA
    >>> X = np.random.default_rng(0).normal(size=(2000, 5)) * [3, 1, 1, 1, 1]
    >>> pca = PrivatePCA(n_components=1, epsilon=2.0, delta=1e-5, bounds=Bounds(norm=10.0)).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.9)
    True
    """

    n_components: int = 20

    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    parameters: ClassVar[Form] = {"n_components": whole(least=1)}
    learned: ClassVar[Form] = {
        "centre_": numbers("d"),
        "components_": numbers("k", "d"),
        "eigenvalues_": numbers("k"),
        "n_components_": whole("k", least=1),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:  # noqa: ARG002
        records, budget = self._begin(X, None, groups)  # [P1] rows in the unit ball
        moment = budget.gaussian(SecondMoment(records.width))  # [P2] sensitivity of the sum
        budget.charge()  # [P3] charge, then draw
        self.n_components_ = min(int(self.n_components), records.width)
        eigenvalues, basis = top_eigenvectors(budget.draw(moment), self.n_components_)  # [P4]
        self.centre_, radius = self.row_bounds.ball(records.width)
        self.components_, self.eigenvalues_ = basis.T, eigenvalues * radius**2
        self.guarantee_ = budget.guarantee()
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def transform(self, X: Any) -> Array:
        """Return the coordinates of rows, moved into their bounds, along the components.

        $rows
        ndarray of shape (n_samples, n_components)
            Coordinates.
        """
        rows = self.row_bounds.clip(self._rows(X))
        return np.asarray((rows - self.centre_) @ self.components_.T)


@dataclass(eq=False, repr=False)
class PrivateMoments(PrivateEstimator):
    """``S_c = sum_{y=c} [x; w][x; w]ᵀ + noise`` for all classes at the price of one.

    Parameters
    ----------
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted; a single 0 where no labels were given.
    counts_ : ndarray of shape (n_classes,)
        Noisy numbers of rows, at least 1; where the number of all rows is public they add up to it.
    means_ : ndarray of shape (n_classes, n_features)
        Noisy means, inside the ball of the bounds.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Noisy covariances, shrunk and made positive definite by a public rule
        (`sfumato.models.gaussians`).
    $guarantee

    Privacy
    -------
    Unit and relation : record, label included, or person; replace_one or add_or_remove_one.
    Released : the joint moments of all classes, with symmetric Gaussian noise.
    Sensitivity : ``√2 (1 + w²)`` (replace, a change of label included) or ``1 + w²`` (add or
        remove), w = 7/8: 2.50 or 1.77.
    Guarantee : mu-GDP by the Gaussian mechanism, hence (epsilon, delta).
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/moments.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivateMoments
    >>> X = np.random.default_rng(0).normal(0.3, 0.1, size=(5000, 2))
    >>> moments = PrivateMoments(epsilon=1.0, bounds=Bounds(lower=0.0, upper=1.0)).fit(X)
    >>> moments.means_.round(1)
    array([[0.3, 0.3]])
    """

    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    has_labels: ClassVar[bool | None] = None
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "counts_": numbers("c"),
        "means_": numbers("c", "d"),
        "covariances_": numbers("c", "d", "d"),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        records, budget = self._begin(X, y, groups)  # [M1] rows in the unit ball
        statistic = ClassMoments(len(self.classes_), records.width, CONSTANT)
        moments = budget.gaussian(statistic)  # [M2] sensitivity of all classes jointly
        budget.charge()  # [M3] charge, then draw
        noisy = statistic.unweighted(budget.draw(moments))
        noise = budget.noise(moments)
        gaussians = gaussians_from_moments(noisy, noise, n_rows=records.public_rows)  # [M4]
        centre, radius = self.row_bounds.ball(records.width)
        self.counts_ = gaussians.counts
        self.means_ = gaussians.means * radius + centre
        self.covariances_ = gaussians.covariances * radius**2
        self.guarantee_ = budget.guarantee()
        return self


@dataclass(eq=False, repr=False)
class PrivateGaussianClassifier(PrivateClassifier):
    """``argmax_c  n_c N(u; mean_c, covariance_c)``, ``u = Uᵀ(x - centre)/radius``, clipped.

    All of it comes from two to four noisy sums; see `sfumato.models.gaussians`.

    Parameters
    ----------
    n_components : int or None, default=40
        Private principal components to classify in, capped at the number of features; None
        uses the features as they are and spends their share of the budget on the classes.
    gaussians_per_class : {1, 2, 4}, optional
        Gaussians that make up a class; by default as many as epsilon, the number of rows (where
        it is public), of labels and of components allow. Several help where a class has several
        forms, as in images; 1 is the better choice for tables that are mostly categories.
    $shared

    Attributes
    ----------
    $classes
    components_ : ndarray of shape (n_components, n_features)
        Private principal directions (the identity without them).
    centre_ : ndarray of shape (n_features,)
        Private mean of the rows.
    radius_ : float
        Length at which centred rows are clipped along the components.
    counts_, means_, covariances_ : ndarray
        The Gaussians in the components, rows centred and divided by the radius.
    gaussian_classes_ : ndarray of shape (n_gaussians,)
        Position in `classes_` of the class of each Gaussian.
    $guarantee

    Privacy
    -------
    Unit and relation : record, label included, or person; replace_one or add_or_remove_one.
    Released : the sum of rows and squared lengths; the second moment of centred rows; the class
        moments in its top eigenvectors (twice where a class has several Gaussians), each with
        Gaussian noise.
    Sensitivity : 2, ``√2``, ``1.25·√2`` (replace), or ``√3``, 1, 1.25 (add or remove).
    Guarantee : the ``mu²`` of the releases add up, calibrated to (epsilon, delta).
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/gaussian-classifier.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateGaussianClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(norm=80.0, labels=range(10))
    >>> model = PrivateGaussianClassifier(epsilon=8.0, delta=1e-5, n_components=20, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    n_components: int | None = 40
    _: KW_ONLY
    gaussians_per_class: int | None = None

    parameters: ClassVar[Form] = {
        "n_components": or_none(whole(least=1)),
        "gaussians_per_class": one_of(None, 1, 2, 4),
    }
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "components_": numbers("k", "d"),
        "centre_": numbers("d"),
        "radius_": real(above=0.0),
        **{f"{name}_": check for name, check in stored_gaussians().items()},
        "gaussian_classes_": integers("g", below="c", all_of_them=True),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        records, budget = self._begin(X, y, groups)  # rows in the unit ball
        sums = ClassGaussianSums(  # [G1] the budget divided
            budget,
            records,
            n_classes=len(self.classes_),
            n_components=min(self.n_components or records.width, records.width),
            n_parts=self.gaussians_per_class,
        )
        budget.charge()  # [G2] charge all, then draw
        released = sums.draw().in_units_of(self.row_bounds)  # [G3] the releases
        self.components_ = released.basis.T  # [G4] post-processing: no rows
        self.centre_, self.radius_ = released.centre, released.radius
        self.counts_ = released.counts
        self.means_ = released.means
        self.covariances_ = released.covariances
        self.gaussian_classes_ = released.classes
        self.guarantee_ = budget.guarantee()
        return self

    def _scores(self, rows: Array) -> Array:
        """Return the log of the sum of count times density over the Gaussians of each class."""
        released = CentredGaussians(
            self.counts_,
            self.means_,
            self.covariances_,
            self.centre_,
            self.components_.T,
            self.radius_,
            self.gaussian_classes_,
        )
        coordinates = released.to_coordinates(self.row_bounds.clip(rows))
        parts = released.log_densities(coordinates) + np.log(self.counts_)
        scores = [
            logsumexp(parts[:, self.gaussian_classes_ == c], axis=1)
            for c in range(len(self.classes_))
        ]
        return (scores[1] - scores[0])[:, None] if len(scores) == 2 else np.column_stack(scores)
