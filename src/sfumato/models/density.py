"""A private density of one or two features, for all rows or for each class: smoothed cells."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import Form, labels, numbers, optional, or_none, real, refuse, whole
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.laplace import LaplaceMechanism
from sfumato.models.base import PrivateEstimator
from sfumato.models.features import Domain
from sfumato.models.smoothing import MAX_CELLS, Cells, GridDensity, default_cells
from sfumato.sums.grid import MAX_ROWS
from sfumato.sums.maps import Clipped
from sfumato.sums.statistics import CountTables
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

FEW_FEATURES = 2  # that many at most can be cut into cells


def _stored_counts(value: Any, place: str, sizes: dict[str, int]) -> None:
    numbers(*(f"cells{axis}" for axis in range(sizes["d"])), "c")(value, place, sizes)


@dataclass(eq=False, repr=False)
class PrivateDensity(DensityMixin, PrivateEstimator):
    """A private density of one or two features: noisy counts of cells, smoothed.

    The counts of public cells get Laplace noise and are smoothed by the filter of least estimated
    risk. Columns of whole numbers in the bounds of a table have cells of equally many numbers, and
    rows that are drawn, and quantiles, are whole there.

    Parameters
    ----------
    n_cells : int, optional
        Cells along each axis of the grid. By default ``3 (n epsilon)^0.4`` on a line and
        ``1.6 (n epsilon)^0.3`` in the plane, with n = 10,000 where it is secret.
    $shared

    Attributes
    ----------
    cell_counts_ : ndarray of shape (n_cells, ..., n_classes)
        What was released.
    noise_variance_ : float
        Variance of the noise of each count.
    public_rows_ : int or None
        The number of rows, where it is public.
    masses_ : ndarray of shape (n_nodes, n_classes)
        Mass of the density in each cell; sums to one.
    classes_, class_prior_ : ndarray of shape (n_classes,)
        The label set and the share of each class; a single 0 without labels.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    See Also
    --------
    sfumato.papers.functions.ProcessDensity : A sum of kernels plus a random process.

    Privacy
    -------
    Unit and relation : record, label included, or person; replace_one or add_or_remove_one.
    Released : the counts of all cells and classes, with Laplace noise.
    Sensitivity : 2 (replace) or 1 (add or remove), in the L1 norm.
    Guarantee : pure epsilon.
    Assumptions and numerics : bounds, cells and label set are public; counts are exact, noise is
        float-safe. Proof: docs/guarantees/grid-density.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivateDensity
    >>> X = np.random.default_rng(0).normal(0.4, 0.1, size=(5000, 1))
    >>> model = PrivateDensity(delta=1e-5, bounds=Bounds(lower=0.0, upper=1.0)).fit(X)
    >>> bool(model.density([[0.4]])[0] > 5 * model.density([[0.8]])[0])
    True
    >>> bool(abs(model.quantile(0.5) - 0.4) < 0.02)
    True
    >>> model.sample(100).shape
    (100, 1)
    """

    _: KW_ONLY
    n_cells: int | None = None

    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    scales_tables: ClassVar[bool] = False
    in_unit_ball: ClassVar[bool] = False
    has_labels: ClassVar[bool | None] = None
    parameters: ClassVar[Form] = {"n_cells": or_none(whole(least=2, most=MAX_CELLS[1]))}
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "cell_counts_": _stored_counts,
        "noise_variance_": real(least=0.0),
        "public_rows_": optional(whole(least=1, most=MAX_ROWS)),
        "masses_": numbers("nodes", "c", least=0.0),
        "class_prior_": numbers("c", least=0.0),
    }

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        records, budget = self._begin(X, y, groups)
        d, epsilon = records.width, float(self.epsilon)
        if d > FEW_FEATURES:
            raise UnsupportedModeError(
                f"PrivateDensity is for one or two features. Got {d}: use a GaussianFabricator, or "
                "sfumato.papers.functions.ProcessDensity."
            )
        if self.n_cells is not None and self.n_cells > MAX_CELLS[d]:
            raise InvalidInputError(
                f"'n_cells' must be a whole number from 2 to {MAX_CELLS[d]} for {d} feature(s), or "
                f"None. Got {self.n_cells!r} instead."
            )
        per_axis = self.n_cells or default_cells(epsilon, records.public_rows, d)
        table = self.bounds  # rows without a number are left out where they are declared
        gaps = isinstance(table, TableBounds) and any(f.missing for f in table.features)
        cells = Cells.of(self._domain(d), (per_axis,) * d, self._steps(d), may_be_missing=gaps)
        if not gaps:  # a missing number counts as the middle of its range
            records = records.mapped(Clipped(self.row_bounds, d))
        statistic = CountTables(cells.counted, (tuple(range(d)),), len(self.classes_))
        mechanism: LaplaceMechanism | GaussianMechanism
        if records.has_exact_sums:
            mechanism = LaplaceMechanism(
                sensitivity=records.sensitivity(statistic, norm=1),
                epsilon=epsilon,
                touched=2 * (1 if records.person is None else records.person.rows),
            )
        else:  # [S4] parties add up Gaussian noise
            mechanism = GaussianMechanism.calibrate(
                sensitivity=records.sensitivity(statistic), epsilon=epsilon, delta=self.delta
            )
        mechanism.for_size(statistic.size)
        receipt = budget.charge(mechanism.event())  # [S3] charge, then draw
        counted = records.mapped(cells)  # [S1] cells of each row
        noisy = counted.release(statistic, mechanism, receipt)  # [S2] the only release
        counts = statistic.split(noisy)[0]
        self.cell_counts_ = np.asarray(counts[tuple(slice(n) for n in cells.shape)])
        self.noise_variance_ = records.variance_of(mechanism)
        self.public_rows_ = None if gaps else records.public_rows  # of those that are counted
        masses = self._released().masses  # no rows from here on
        self.masses_ = masses.reshape(-1, masses.shape[-1])
        self.class_prior_ = self.masses_.sum(axis=0)
        self.guarantee_ = budget.guarantee()
        return self

    def _steps(self, n_features: int) -> tuple[float | None, ...]:
        """Return the distance of neighbouring values of each feature: 1, or None."""
        if not isinstance(self.bounds, TableBounds):
            return (None,) * n_features
        return tuple(1.0 if each.is_whole else None for each in self.bounds.features)

    def _on_steps(self, values: Array) -> Array:
        """Move values to the nearest of those that a feature can have."""
        low, high = self._domain(self.n_features_in_).lower, self._domain(self.n_features_in_).upper
        for axis, step in enumerate(self._steps(self.n_features_in_)):
            if step is not None:
                values[..., axis] = low[axis] + step * np.rint(
                    (values[..., axis] - low[axis]) / step
                )
        return np.clip(values, low, high)

    # What was released --------------------------------------------------------------------------

    def _domain(self, n_features: int) -> Domain:
        return Domain(self.row_bounds, n_features)

    def _released(self) -> GridDensity:
        d = self.n_features_in_
        cells = Cells.of(self._domain(d), self.cell_counts_.shape[:-1], self._steps(d))
        n_rows = getattr(self, "public_rows_", None)
        return GridDensity(cells, self.cell_counts_, self.noise_variance_, n_rows)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        shape, most = self.cell_counts_.shape[:-1], MAX_CELLS.get(sizes["d"], 0)
        cells = Cells.of(self._domain(sizes["d"]), shape, self._steps(sizes["d"]))
        if not 2 <= min(shape) <= max(shape) <= most or cells.shape != shape:
            raise refuse("cell_counts_", "counts of cells of one or two features")
        if sizes["nodes"] != int(np.prod(shape)) or not self.masses_.sum() > 0:
            raise refuse("masses_", "the mass of each cell, not all of them zero")

    def _ask(self, X: ArrayLike) -> tuple[GridDensity, Array, Array]:
        """Return the release, rows moved into its box, and which of them were inside.

        A row with missing or infinite numbers stands for the public default.
        """
        rows = np.array(self._rows(X))
        rows[~np.isfinite(rows).all(axis=1)] = self.row_bounds.ball(rows.shape[1])[0]
        released = self._released()
        lower, upper = np.array(released.cells.lower), np.array(released.cells.upper)
        inside = np.all((rows >= lower) & (rows <= upper), axis=1)
        return released, np.clip(rows, lower, upper), inside

    def _joint(self, X: ArrayLike) -> Array:
        released, rows, inside = self._ask(X)
        return np.where(inside[:, None], released.joint(rows), 0.0)

    def density(self, X: ArrayLike) -> Array:
        """Return the density at points: near the release, nowhere negative, 0 outside the box.

        $rows
        ndarray of shape (n_samples,)
            The density.
        """
        return np.asarray(self._joint(X).sum(axis=1))

    def class_densities(self, X: ArrayLike) -> Array:
        """Return the density of each class at points, one column a class.

        $rows
        ndarray of shape (n_samples, n_classes)
            The densities.
        """
        shares = np.where(self.class_prior_ > 0, self.class_prior_, np.inf)
        return np.asarray(self._joint(X) / shares)

    def score_samples(self, X: ArrayLike) -> Array:
        """Return the log of the density at points; minus infinity where it is 0.

        $rows
        ndarray of shape (n_samples,)
            Its logarithm.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.density(X)))

    def score(self, X: ArrayLike, y: object = None) -> float:  # noqa: ARG002 - the contract's y
        """Return the total log-likelihood of points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Not used.

        Returns
        -------
        float
            The sum of `score_samples`.
        """
        return float(self.score_samples(X).sum())

    def sample(
        self, n_samples: int = 1, random_state: Any = None
    ) -> Array | tuple[Array, NDArray[Any]]:
        """Draw private synthetic rows from the released density; free, and as many as wanted.

        Parameters
        ----------
        n_samples : int, default=1
            How many rows.
        random_state : int, RandomState or None
            Public randomness: the rows are drawn from what is public already.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        y : ndarray of shape (n_samples,)
            Labels, only where the density was fitted with labels.
        """
        check_is_fitted(self)
        rows, codes = self._released().draw(n_samples, check_random_state(random_state))
        rows = self._on_steps(rows)
        return (rows, self.classes_[codes]) if len(self.classes_) > 1 else rows

    def cdf(self, values: ArrayLike) -> Array:
        """Return the distribution function of one feature, all classes together.

        Parameters
        ----------
        values : array-like
            Where.

        Returns
        -------
        ndarray
            Probabilities, in the shape of `values`.
        """
        return self._line().cdf(np.asarray(values, dtype=np.float64))

    def quantile(self, probabilities: ArrayLike) -> Array:
        """Return quantiles of one feature, all classes together.

        Parameters
        ----------
        probabilities : array-like
            Numbers in [0, 1].

        Returns
        -------
        ndarray
            Quantiles, in the shape of `probabilities`.
        """
        asked = np.asarray(probabilities, dtype=np.float64)
        if not ((asked >= 0) & (asked <= 1)).all():
            raise InvalidInputError("Probabilities must lie in [0, 1].")
        return self._on_steps(self._line().quantile(asked)[..., None])[..., 0]

    def _line(self) -> GridDensity:
        check_is_fitted(self)
        if self.n_features_in_ != 1:
            raise UnsupportedModeError("Distributions and quantiles need exactly one feature.")
        return self._released()
