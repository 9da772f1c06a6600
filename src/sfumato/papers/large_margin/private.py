"""The private large-margin classifier: ellipsoids from one perturbed objective."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import Form, flag, known_bounds, labels, numbers
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.gaussians import top_eigenvectors
from sfumato.models.private import PrivateEstimator
from sfumato.papers.large_margin.ellipsoids import (
    EllipsoidAnswers,
    MarginLimits,
    MarginLoss,
    PerturbableSum,
    centroids,
    extended,
    precisions,
    quadratic_features,
    shifted_into_cone,
    to_matrices,
    to_vectors,
)
from sfumato.papers.perturbed import MAX_MINIMISED, ObjectiveBudget
from sfumato.privacy.guarantee import Relation
from sfumato.sums import ArrayRecords, SecondMoment
from sfumato.sums.maps import IntoUnitBall, MappedRows, exact_projection
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_n_components, checked_column
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

# a = [√0.9 z; √0.1] has length 1 at most, with room for the rounding of its products. The share of
# the row was chosen on held-out training rows of MNIST among 0.5, 0.8, 0.9 and 0.95.
ROW_SHARE = 0.9
ROOM = 1 - 2.0**-40
MAX_CACHED = 1.2  # of the memory of the rows: mapped rows that take more are computed on each pass
_UNIT_BALL = Bounds(norm=1.0)
# The regulariser Λ of the public rule, in deviations of the noise. Chosen on held-out training rows
# of MNIST among 0.1, 0.25, 0.5 and 1 at epsilon 1 and 10.
NOISE_SHARE = 0.5


class PrivateLargeMarginGaussianClassifier(EllipsoidAnswers, ClassifierMixin, PrivateEstimator):
    """``argmin_c aᵀ Φ_c a`` with ``a = [√0.9 x; √0.1]`` and private matrices Φ.

    They minimise, over symmetric matrices,
    ``sum_i sum_{c != y_i} l(1 - aᵢᵀ(Φ_c - Φ_{y_i})aᵢ) + Λ/2 sum_c ||Φ_c||² + sum_c <B_c, Φ_c>``,
    with independent symmetric Gaussian noise B_c for each class and Huber's rounded hinge l.

    Parameters
    ----------
    n_components : int or None, default=None
        Private principal components to classify in, capped at the number of features; None
        uses the features as they are. The noise grows with the square of this number.
    pca_share : float, default=0.05
        Share of ``mu²`` that goes to the components; not used without them.
    normalize_rows : bool, default=False
        Bring each row to length 1, in the components if there are any: for rows whose length
        says little, such as images, the noise then hides a longer row.
    huber_width : float, default=1.0
        Half-width h: the hinge is rounded over ``[1 - h, 1 + h]``.
    regularization : float or None, default=None
        Λ; None takes half the deviation of the noise, which needs no number of rows.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit; ``epsilon=inf`` means no noise and no privacy.
    unit : {"record"}, default="record"
        One whole row with its label is protected.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        Public bounds of the rows and the label set; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    components_ : ndarray of shape (n_components, n_features)
        Private principal directions (the identity without them).
    matrices_ : ndarray of shape (n_classes, n_components + 1, n_components + 1)
        The Φ_c for ``[x; 1]``, rows scaled into the unit ball; positive semidefinite after one
        shift of all of them.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : the second moment of all rows if components are requested, then the minimiser of
        the perturbed objective, up to a known error that a little noise on it hides.
    Sensitivity : ``√2 C`` (replace) or ``√(C(C-1))`` (add or remove) of the joint gradient over all
        C classes.
    Guarantee : the loss bound of objective perturbation with ``2(C-1)`` or ``C-1`` directions,
        composed with the components and calibrated to (epsilon, delta).
    Assumptions and numerics : bounds and label set are public, and where the number of rows is
        secret, that there are at most 2**22 of them; the solver's error is bounded and covered by
        noise. Proof: docs/guarantees/large-margin.md.

    See Also
    --------
    LargeMarginGaussianClassifier : The same without privacy.
    PrivateGaussianClassifier : From two noisy sums; more accurate wherever both were measured.

    References
    ----------
    Pathak and Raj, Large margin multiclass Gaussian classification with differential
    privacy, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sfumato import Bounds, PrivateLargeMarginGaussianClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bounds = Bounds(lower=[4, 2, 1, 0], upper=[8, 5, 7, 3], labels=[0, 1, 2])
    >>> model = PrivateLargeMarginGaussianClassifier(epsilon=50.0, delta=1e-3, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.7)
    True
    """

    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "classes_": labels("c"),
        "components_": numbers("k", "d"),
        "matrices_": numbers("c", "k+1", "k+1"),
        "normalize_rows": flag(),
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        pca_share: float = 0.05,
        normalize_rows: bool = False,
        huber_width: float = 1.0,
        regularization: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.n_components = n_components
        self.pca_share = pca_share
        self.normalize_rows = normalize_rows
        self.huber_width = huber_width
        self.regularization = regularization
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn one ellipsoid per class from a perturbed objective.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._validate_privacy_params()
        rows = self._check_rows(X)
        codes, self.classes_ = bounds.clip_labels(
            checked_column(self, self._target(X, y), len(rows))
        )
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The label set has only one class; a classifier needs at least two."
            )
        self._warn_if_weak(len(rows))

        budget = self._budget(rows.shape)  # [L1] everything public
        components, ellipsoids = budget.components(), budget.objective()  # [L2] D, kappa, m
        if components is not None:
            components.for_size(rows.shape[1] ** 2)
        receipt = self._charge(*filter(None, (components, ellipsoids)))  # [L3] charge, then draw
        basis = self._basis(components, bounds, rows, receipt)  # [L4] first release
        order = rows.shape[1] + 1 if basis is None else basis.shape[1] + 1
        weights = _weights(order)
        mapped = MappedRows(
            rows,
            lambda block: weights * extended(self._rows_in_ball(bounds, block, basis)),
            order,
        )
        objective = PerturbableSum(  # [L5] secret: rows of length 1, one loss per record
            mapped.cache(MAX_CACHED * rows.nbytes), codes, len(self.classes_), self._loss
        )
        released = ellipsoids.release(objective, ledger=receipt)  # [L6] second release

        matrices = shifted_into_cone(to_matrices(released))  # [L7] post-processing
        self.matrices_ = matrices * np.outer(weights, weights)
        self.components_ = np.eye(rows.shape[1]) if basis is None else basis.T
        self.guarantee_ = self._guarantee(receipt)
        return self

    @property
    def _number_is_public(self) -> bool:
        return Relation(self.relation) is Relation.REPLACE_ONE

    @property
    def _max_rows(self) -> int:
        return MAX_MINIMISED

    @property
    def _loss(self) -> MarginLoss:
        return MarginLoss(float(self.huber_width))

    def _budget(self, shape: tuple[int, ...]) -> ObjectiveBudget:
        n_rows, n_features = shape
        kept = self._components_kept(n_features)
        order = (n_features if kept is None else kept) + 1
        most = n_rows if self._number_is_public else MAX_MINIMISED
        size = order * (order + 1) // 2
        return ObjectiveBudget(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            relation=Relation(self.relation),
            limits=MarginLimits(self._loss, len(self.classes_), most, size),
            n_features=n_features,
            n_rows=most,
            pca_share=0.0 if kept is None else self.pca_share,
            regularization=self.regularization,
            noise_share=NOISE_SHARE,
            tolerance=1e-6,
        )

    def _validate_privacy_params(self) -> Bounds:
        bounds = super()._validate_privacy_params()
        if not 0 < self.pca_share < 1:
            raise InvalidInputError(f"'pca_share' must lie in (0, 1). Got {self.pca_share}.")
        if not 0 < self.huber_width < math.inf:
            raise InvalidInputError(f"'huber_width' must be positive. Got {self.huber_width}.")
        if self.regularization is not None and not 0 < self.regularization < math.inf:
            raise InvalidInputError(
                f"'regularization' must be positive, or None. Got {self.regularization} instead."
            )
        if self.delta == 0 and math.isfinite(self.epsilon):
            raise InvalidInputError("Gaussian noise needs a positive 'delta'.")
        return bounds

    def _components_kept(self, n_features: int) -> int | None:
        """Return the number of components, or None where all features are kept anyway."""
        if self.n_components is None:
            return None
        kept = check_n_components(self.n_components, n_features)
        return None if kept == n_features else kept

    def _basis(
        self, mechanism: GaussianMechanism | None, bounds: Bounds, rows: Array, receipt: Any
    ) -> Array | None:
        kept = self._components_kept(rows.shape[1])
        if mechanism is None or kept is None:
            return None
        records = ArrayRecords(rows, relation=self.relation)
        units = records.mapped(IntoUnitBall(bounds, records.width))
        noisy = units.release(SecondMoment(units.width), mechanism, receipt)
        return top_eigenvectors(noisy, kept)[1]

    def _rows_in_ball(self, bounds: Bounds, rows: Array, basis: Array | None) -> Array:
        """Rows in the unit ball and in the basis; each row is treated alone."""
        found = IntoUnitBall(bounds, rows.shape[1])(rows)
        if basis is not None:
            found = exact_projection(found, basis)
        if self.normalize_rows:
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            found /= np.where(lengths > 0, lengths, 1.0)
        return _UNIT_BALL.clip(found)

    @property
    def centroids_(self) -> Array:
        """Centres of the ellipsoids, in the components, rows scaled into the unit ball."""
        return centroids(self.matrices_)

    @property
    def precisions_(self) -> Array:
        """Inverse covariances of the ellipsoids."""
        return precisions(self.matrices_)

    def distances(self, X: ArrayLike) -> Array:
        """Return the score of each row and class, shape (n_samples, n_classes); the least wins.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One distance a class.
        """
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        basis = None if len(self.components_) == rows.shape[1] else self.components_.T
        features = quadratic_features(extended(self._rows_in_ball(self.row_bounds, rows, basis)))
        return np.asarray(features @ to_vectors(self.matrices_).T)


def _weights(order: int) -> Array:
    """What the numbers of ``[z; 1]`` are multiplied by."""
    weights = np.full(order, math.sqrt(ROW_SHARE) * ROOM)
    weights[-1] = math.sqrt(1 - ROW_SHARE) * ROOM
    return weights
