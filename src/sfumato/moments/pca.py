"""Private principal components from one noisy second moment."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Unit
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.private import PrivateEstimator
from sfumato.storage.forms import Form, known_bounds, numbers, whole
from sfumato.sums import Records, SecondMoment
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_n_components
from sfumato.tables.schema import TableBounds

__all__ = ["PrivatePCA", "top_eigenvectors"]

Array = NDArray[np.float64]


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Top eigenvectors of ``sum (x - c)(x - c)ᵀ + noise``, c the centre of the bounds.

    Parameters
    ----------
    n_components : int, default=20
        Directions kept; capped at the number of features.
    epsilon, delta : float, default=1.0, 1e-6
        The budget. ``epsilon=inf`` gives the exact components and no privacy.
    unit : {"record", "person"}, default="record"
        One whole row is protected, or all rows of a person.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        Public bounds of the rows; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions, the largest (algebraic) eigenvalue first.
    eigenvalues_ : ndarray of shape (n_components,)
        Their noisy eigenvalues.
    centre_ : ndarray of shape (n_features,)
        The public centre c.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

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

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "centre_": numbers("d"),
        "components_": numbers("k", "d"),
        "eigenvalues_": numbers("k"),
        "n_components_": whole("k", least=1),
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(
        self,
        X: ArrayLike | Records,
        y: object = None,  # noqa: ARG002 - the contract's y
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn the components from one noisy second moment.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Records
            Rows.
        y : None
            Not used.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._check_promise()
        records, _ = self._unit_records(X, None, bounds, groups)  # [P1] rows in the unit ball
        n_components = check_n_components(self.n_components, records.width)
        statistic = SecondMoment(records.width)
        mechanism = GaussianMechanism.calibrate(  # [P2] sensitivity of the sum
            sensitivity=records.sensitivity(statistic), epsilon=self.epsilon, delta=self.delta
        ).for_size(statistic.size)
        receipt = self._prepay(mechanism)  # [P3] charge, then draw
        noisy = records.release(statistic, mechanism, receipt)

        eigenvalues, basis = top_eigenvectors(noisy, n_components)  # [P4] post-processing
        self.centre_, radius = bounds.ball(records.width)
        self.components_ = basis.T
        self.eigenvalues_ = eigenvalues * radius**2
        self.n_components_ = n_components
        self.guarantee_ = self._guarantee(receipt)
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def transform(self, X: ArrayLike) -> Array:
        """Give the coordinates of rows, moved into their bounds, along the components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Coordinates.
        """
        check_is_fitted(self)
        rows = self.row_bounds.clip(self._check_rows(X, reset=False))
        return np.asarray((rows - self.centre_) @ self.components_.T)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Give the rows that have these coordinates and nothing outside the components.

        Coordinates longer than those of any row inside the bounds are scaled back.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Coordinates.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows.
        """
        check_is_fitted(self)
        radius = self.row_bounds.ball(self.n_features_in_)[1]
        coordinates = Bounds(norm=radius).clip(X)
        if coordinates.shape[1] != self.n_components_:
            raise InvalidInputError(
                f"Expected {self.n_components_} coordinates per row. Got {coordinates.shape[1]}."
            )
        return np.asarray(coordinates @ self.components_ + self.centre_)


def top_eigenvectors(matrix: Array, n_components: int) -> tuple[Array, Array]:
    """Largest *algebraic* eigenvalues and their eigenvectors (as columns), the largest first.

    Noise makes large negative eigenvalues; a singular value decomposition would keep them. Signs
    are fixed (largest entry positive), so that equal releases give equal components.
    """
    last = len(matrix) - 1
    values, vectors = eigh(matrix, subset_by_index=[last + 1 - n_components, last])
    if len(values) < n_components:  # LAPACK may lose some of many equal ones
        values, vectors = (found[..., -n_components:] for found in np.linalg.eigh(matrix))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(n_components)])
    return values, vectors * np.where(signs == 0, 1.0, signs)
