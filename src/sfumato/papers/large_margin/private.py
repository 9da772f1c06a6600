"""The private large-margin classifier: ellipsoids from one perturbed objective."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state

from sfumato.core.constraints import Form, flag, labels, numbers, or_none, real, refuse, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateEstimator
from sfumato.models.linear import top_eigenvectors
from sfumato.papers.large_margin.ellipsoids import (
    EllipsoidAnswers,
    MarginLimits,
    MarginLoss,
    PerturbableSum,
    extended,
    shifted_into_cone,
    to_matrices,
)
from sfumato.papers.perturbed import MAX_MINIMISED, ObjectiveBudget
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums import SecondMoment
from sfumato.sums.maps import IntoUnitBall, exact_projection
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

# a = [√0.9 z; √0.1] has length 1 at most, with room for the rounding of its products. The share of
# the row was chosen on held-out training rows of MNIST among 0.5, 0.8, 0.9 and 0.95.
ROW_SHARE = 0.9
ROOM = 1 - 2.0**-40
BLOCK = 4096  # rows that are mapped together
_UNIT_BALL = Bounds(norm=1.0)


@dataclass(eq=False, repr=False)
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
    n_ellipsoids : int, default=1
        Ellipsoids of a class (a mixture). A row belongs to the one whose public direction, drawn at
        random, it points to most; the noise grows with their number as with that of classes.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    components_ : ndarray of shape (n_components, n_features)
        Private principal directions (the identity without them).
    matrices_ : ndarray of shape (n_classes * n_ellipsoids, n_components + 1, n_components + 1)
        The Φ_c, class by class, for ``[x; 1]``, rows scaled into the unit ball; positive
        semidefinite after one shift of all of them.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : the second moment of all rows if components are requested, then the minimiser of
        the perturbed objective, up to a known error that a little noise on it hides.
    Sensitivity : ``√2 C`` (replace) or ``√(C(C-1))`` (add or remove) of the joint gradient over all
        C classes; with mixtures, C is the number of all ellipsoids.
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

    n_components: int | None = None
    _: KW_ONLY
    pca_share: float = 0.05
    normalize_rows: bool = False
    huber_width: float = 1.0
    regularization: float | None = None
    n_ellipsoids: int = 1

    has_labels: ClassVar[bool | None] = True
    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    in_unit_ball: ClassVar[bool] = False
    needs_memory: ClassVar[bool] = True
    max_secret_rows: ClassVar[int] = MAX_MINIMISED
    parameters: ClassVar[Form] = {
        "n_components": or_none(whole(least=1)),
        "pca_share": real(above=0.0, below=1.0),
        "normalize_rows": flag(),
        "huber_width": real(above=0.0),
        "regularization": or_none(real(above=0.0)),
        "n_ellipsoids": whole(least=1),
    }
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "components_": numbers("k", "d"),
        "matrices_": numbers("e", "k+1", "k+1"),
    }

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
        rows, codes, budget = self._begin_in_memory(X, y)
        if self.delta == 0 and math.isfinite(self.epsilon):
            raise InvalidInputError("Gaussian noise needs a positive 'delta'.")
        n_rows, n_features = rows.shape
        kept = min(self.n_components or n_features, n_features)
        order, loss = kept + 1, MarginLoss(float(self.huber_width))
        relation = Relation(self.relation)
        most = n_rows if relation is Relation.REPLACE_ONE else MAX_MINIMISED
        n_labels = len(self.classes_) * self.n_ellipsoids
        limits = MarginLimits(loss, n_labels, most, order * (order + 1) // 2)
        public = ObjectiveBudget(  # [L1] everything public
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            relation=relation,
            limits=limits,
            n_features=n_features,
            n_rows=most,
            pca_share=self.pca_share if kept < n_features else 0.0,
            regularization=self.regularization,
        )
        first, last = public.components(), public.objective()  # [L2] D, kappa, m
        if first is not None:
            first.for_size(n_features**2)
        releases = [each.event() for each in (first, last) if each]
        receipt = budget.charge(*releases)  # [L3] charge, then draw
        basis = None
        if first is not None:  # [L4] first release
            units = budget.records.mapped(IntoUnitBall(self.row_bounds, n_features))
            moment = units.release(SecondMoment(n_features), first, receipt)
            basis = top_eigenvectors(moment, kept)[1]
        weights = np.full(order, math.sqrt(ROW_SHARE) * ROOM)
        weights[-1] = math.sqrt(1 - ROW_SHARE) * ROOM
        blocks = (rows[i : i + BLOCK] for i in range(0, n_rows, BLOCK))
        with np.errstate(all="ignore"):  # a warning would tell of a row
            mapped = [weights * extended(self._rows_in_ball(each, basis)) for each in blocks]
        if self.n_ellipsoids > 1:  # a label of class and ellipsoid, by each row alone
            directions = check_random_state(0).normal(size=(kept, self.n_ellipsoids))
            along = exact_projection(self._rows_in_ball(rows, basis), directions)
            codes = self.n_ellipsoids * codes + along.argmax(axis=1)
        objective = PerturbableSum(  # [L5] secret: rows of length 1, one loss per record
            np.concatenate([np.empty((0, order)), *mapped]), codes, n_labels, loss
        )
        released = last.release(objective, ledger=receipt)  # [L6] second release

        matrices = shifted_into_cone(to_matrices(released))  # [L7] post-processing
        self.matrices_ = matrices * np.outer(weights, weights)
        self.components_ = np.eye(n_features) if basis is None else basis.T
        self.guarantee_ = budget.guarantee()
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if sizes["e"] != sizes["c"] * self.n_ellipsoids:
            raise refuse("matrices_", "'n_ellipsoids' for each class")

    def _rows_in_ball(self, rows: Array, basis: Array | None) -> Array:
        """Rows in the unit ball and in the basis; each row is treated alone."""
        found = IntoUnitBall(self.row_bounds, rows.shape[1])(rows)
        if basis is not None:
            found = exact_projection(found, basis)
        if self.normalize_rows:
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            found /= np.where(lengths > 0, lengths, 1.0)
        return _UNIT_BALL.clip(found)

    def _scaled_rows(self, X: ArrayLike) -> Array:
        rows = self._rows(X)
        basis = None if len(self.components_) == rows.shape[1] else self.components_.T
        return self._rows_in_ball(rows, basis)
