"""A private density, for all rows or for each class: smoothed cells, or a noisy sum of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import (
    Form,
    labels,
    numbers,
    one_of,
    optional,
    or_none,
    real,
    refuse,
    whole,
)
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.gaussian import SLACK, GaussianMechanism
from sfumato.mechanisms.laplace import LaplaceMechanism
from sfumato.models.base import PrivateEstimator
from sfumato.models.budget import Budget
from sfumato.models.features import (
    Domain,
    GaussianKernel,
    features_from_dict,
    public_features,
    stored_features,
)
from sfumato.models.smoothing import MAX_CELLS, Cells, GridDensity, default_cells
from sfumato.models.spaces import (
    GaussianSpace,
    ProcessDensity,
    SobolevSpace,
    public_nodes,
    two_sum,
)
from sfumato.privacy.guarantee import Relation
from sfumato.sums import CountTables, Records
from sfumato.sums.grid import MAX_ROWS, MAX_ROWS_SECRET_N
from sfumato.sums.maps import Clipped, MappedRows
from sfumato.sums.records import ArrayRecords
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]
Space = GaussianSpace | SobolevSpace

BLOCK = 2**14  # rows whose terms are added up together
PRIVATE_RULE = "private"  # of 0.2.0: a stored model may name it
FEW_FEATURES = 2  # that many at most can be cut into cells
LINE, PLANE = 500, 120  # points drawn along an axis


def _given_bandwidth(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    if isinstance(value, str) and value != PRIVATE_RULE:
        raise refuse(place, "a number, one for each feature, or a matrix")


def _stored_bandwidth(value: Any, place: str, sizes: dict[str, int]) -> None:
    GaussianKernel(value).whiten(np.zeros((1, sizes["d"])))
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        raise refuse(place, "one bandwidth, or one per feature, or a matrix")


def _stored_release(value: Any, place: str, sizes: dict[str, int]) -> None:
    shape = ("m",) if "m" in sizes else ("knots",) * sizes["d"]
    numbers(*shape, "c")(value, place, sizes)


def _stored_counts(value: Any, place: str, sizes: dict[str, int]) -> None:
    numbers(*(f"cells{axis}" for axis in range(sizes["d"])), "c")(value, place, sizes)


@dataclass(eq=False, repr=False)
class PrivateDensity(DensityMixin, PrivateEstimator):
    r"""A private density: noisy counts of cells, smoothed, or a sum of kernels plus a process.

    With one or two features, the counts of public cells get Laplace noise and are smoothed by the
    filter of least estimated risk (method "grid"). Method "process" releases
    ``f(x) = (1/n) sum_i N(x; x_i, H)`` plus a Gaussian process.

    Parameters
    ----------
    bandwidth : float or array-like, optional
        One h for all features, one per feature, or a full matrix H (in squared units). Method
        "process" needs it, and it must not come from the rows.
    space : {"gaussian", "sobolev"}, default="gaussian"
        Where the noise lives: smooth noise with the kernel of the estimate (section 4.1 of the
        paper), or rough noise with an exponential kernel (section 4.2, up to three features).
    method : {"grid", "process"}, optional
        By default "grid" for one or two features, unless a bandwidth or a space asks for "process".
    n_cells : int, optional
        Cells along each axis of the grid. By default ``3 (n epsilon)^0.4`` on a line and
        ``1.6 (n epsilon)^0.3`` in the plane, with n = 10,000 where it is secret.
    step : float, or sequence with a float or None for each feature, optional
        Public distance of neighbouring values, from the lower end of the bounds: 1 for whole
        numbers. Every cell of the grid then holds equally many values.
    n_fourier : int, default=2048
        Random Fourier features, used where the exact features of the kernel would be too many
        (from four features on, or for a bandwidth that is small for its box).
    random_state : int, RandomState or None, default=0
        For these public frequencies only.
    $shared

    Attributes
    ----------
    method_ : str
        The method used.
    cell_counts_ : ndarray of shape (n_cells, ..., n_classes)
        Method "grid": what was released.
    noise_variance_ : float
        Method "grid": variance of the noise of each count.
    public_rows_ : int or None
        Method "grid": the number of rows, where it is public.
    bandwidth_ : ndarray
        Method "process": the bandwidth used: () or (n_features,) or (n_features, n_features).
    coefficients_ : ndarray
        What was released: noisy coordinates of the sums of kernels, one column per class.
    scale_ : float
        ``1 / (n normaliser)``, which makes the release a density estimate; where n is secret, the
        release is divided by its own integral.
    threshold_, gain_ : float
        τ and g of the density ``g max(f - τ, 0)``.
    masses_ : ndarray of shape (n_nodes, n_classes)
        Mass of the density in each cell, or around public points of the box; sums to one.
    classes_, class_prior_ : ndarray of shape (n_classes,)
        The label set and the share of each class; a single 0 without labels.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included, or person (method "grid"); replace_one or
        add_or_remove_one.
    Released : grid: the counts of all cells and classes, with Laplace noise. Process: the sum of
        kernels of each class as a finite vector, with Gaussian noise.
    Sensitivity : grid: 2 (replace) or 1 (add or remove), in the L1 norm. Process:
        ``sqrt(2 - 2 k_min) <= √2`` (replace) or 1 (add or remove) in the space of the kernel, for
        any number of classes together; in the Sobolev space computed numerically.
    Guarantee : grid: pure epsilon. Process: mu-GDP by the Gaussian process mechanism.
    Assumptions and numerics : bounds, bandwidth, cells and label set are public; counts are exact,
        coordinates carry 2⁻¹⁰ for rounding, noise is float-safe. Proofs:
        docs/guarantees/grid-density.md and docs/guarantees/density.md.

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

    bandwidth: Any = None
    _: KW_ONLY
    space: str = "gaussian"
    method: str | None = None
    n_cells: int | None = None
    step: float | Sequence[float | None] | None = None
    n_fourier: int = 2048
    random_state: Any = 0

    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    scales_tables: ClassVar[bool] = False
    in_unit_ball: ClassVar[bool] = False
    has_labels: ClassVar[bool | None] = None
    parameters: ClassVar[Form] = {
        "bandwidth": _given_bandwidth,
        "space": one_of("gaussian", "sobolev"),
        "method": one_of("grid", "process", None),
        "n_cells": or_none(whole(least=2, most=MAX_CELLS[1])),
        "n_fourier": whole(least=2),
    }
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "method_": optional(one_of("grid", "process")),
        "cell_counts_": optional(_stored_counts),
        "noise_variance_": optional(real(least=0.0)),
        "public_rows_": optional(whole(least=1, most=MAX_ROWS)),
        "bandwidth_": optional(_stored_bandwidth),
        "features_": optional(stored_features),
        "scale_": optional(real(least=0.0)),
        "threshold_": optional(real()),
        "gain_": optional(real(least=0.0)),
        "coefficients_": optional(_stored_release),
        "masses_": numbers("nodes", "c", least=0.0),
        "class_prior_": numbers("c", least=0.0),
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        records, budget = self._begin(X, y, groups)
        for name in self.learned.keys() - {"classes_"}:  # of an earlier fit by the other method
            self.__dict__.pop(name, None)
        few = records.width <= FEW_FEATURES
        asks_process = self.bandwidth is not None or self.space != "gaussian"
        self.method_ = self.method or ("grid" if few and not asks_process else "process")
        if self.method_ == "grid" and not few:
            raise UnsupportedModeError(
                f"method='grid' is for one or two features. Got {records.width}: use 'process'."
            )
        release = self._fit_grid if self.method_ == "grid" else self._fit_process
        masses = release(records, budget)
        self.masses_ = masses.reshape(-1, masses.shape[-1])
        self.class_prior_ = self.masses_.sum(axis=0)
        self.guarantee_ = budget.guarantee()
        return self

    # Counts of cells ----------------------------------------------------------------------------

    def _fit_grid(self, records: Records, budget: Budget) -> Array:
        """Release the counts of cells and return masses; see docs/guarantees/grid-density.md."""
        d, epsilon = records.width, float(self.epsilon)
        if self.n_cells is not None and self.n_cells > MAX_CELLS[d]:
            raise InvalidInputError(
                f"'n_cells' must be a whole number from 2 to {MAX_CELLS[d]} for {d} feature(s), or "
                f"None. Got {self.n_cells!r} instead."
            )
        per_axis = self.n_cells or default_cells(epsilon, records.public_rows, d)
        table = self.bounds  # rows without a number are left out where they are declared
        gaps = isinstance(table, TableBounds) and any(f.missing for f in table.features)
        cells = Cells.of(self._domain(d), (per_axis,) * d, self._steps(d), may_be_missing=gaps)
        if not gaps:  # [D1] a missing number counts as the middle of its range
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
        return self._released().masses  # no rows from here on

    def _steps(self, n_features: int) -> tuple[float | None, ...]:
        """Return the public distance of neighbouring values of each feature, or None."""
        given: Any = self.step
        single = given is None or isinstance(given, int | float)
        steps = (given,) * n_features if single else tuple(given)
        sides = self._domain(n_features).width
        if len(steps) != n_features or not all(
            step is None or side / MAX_ROWS_SECRET_N < step <= side
            for step, side in zip(steps, sides, strict=True)
        ):
            raise InvalidInputError(
                "'step' must be positive and at most the width of its feature, one for all "
                f"features, or one or None for each. Got {given!r} instead."
            )
        return tuple(None if step is None else float(step) for step in steps)

    # Sums of kernels ----------------------------------------------------------------------------

    def _fit_process(self, records: Records, budget: Budget) -> Array:
        """Release the sums of kernels and return masses; see docs/guarantees/density.md."""
        if records.person is not None or not isinstance(records, ArrayRecords):
            raise UnsupportedModeError(
                "Densities by random processes (method 'process') protect records, all of them in "
                "memory; for persons, or records that are not in memory, use method='grid'."
            )
        is_public = records.relation is Relation.REPLACE_ONE
        if self.bandwidth is None or isinstance(self.bandwidth, str):
            raise InvalidInputError(
                "Method 'process' needs a 'bandwidth', a public number that does not come from the "
                "rows: n**(-1 / (d + 4)) times the spread that d features are expected to have."
            )
        given, codes = records.in_memory()
        d, n_classes = records.width, len(self.classes_)
        rows = MappedRows(given, Clipped(self.row_bounds, d), d)  # [D1] inside the public box
        # Whether the space can be built is found out before anything is charged.
        self.bandwidth_ = np.asarray(GaussianKernel(self.bandwidth).bandwidth, dtype=np.float64)
        space = self._space(d, reset=True)
        mechanism = GaussianProcessMechanism.calibrate(  # [D2] the budget
            sensitivity=1.0, epsilon=self.epsilon, delta=self.delta
        )
        mechanism.for_size(space.size * n_classes)
        receipt = budget.charge(mechanism.event())  # [D3] charge
        bound = space.sensitivity(self.relation, n_classes)
        # [D7] the mechanism covers SLACK of it; rounding errors of very many rows may be more
        rounding = space.rounding(len(rows) if is_public else MAX_ROWS_SECRET_N)
        bound = max(bound, (bound + rounding) / (1 + SLACK))
        classes = np.eye(n_classes)  # sums have one column a class
        total = lost = np.zeros(())
        for start in range(0, max(1, len(rows)), BLOCK):  # all that is as long are the rows
            part = slice(start, start + BLOCK)
            total, lost = two_sum(total, lost, space.statistic(rows[part], classes[codes[part]]))
        self.coefficients_ = bound * mechanism.release(  # [D5]
            np.asarray(total + lost) / bound, ledger=receipt
        )
        density = ProcessDensity.of(  # [D6] no rows
            space, self.coefficients_, len(rows) if is_public else None
        )
        self.scale_, self.threshold_, self.gain_ = density.scale, density.threshold, density.gain
        return density.masses

    def _space(self, n_features: int, *, reset: bool = False) -> Space:
        """Return the space of public numbers; its features are kept for later queries."""
        domain, kernel = self._domain(n_features), GaussianKernel(self.bandwidth_)
        if self.space == "gaussian":
            if reset:
                self.features_ = public_features(
                    kernel,
                    self.row_bounds,
                    n_features,
                    fourier=self.n_fourier,
                    random_state=self.random_state,
                ).to_dict()
            return GaussianSpace(kernel, features_from_dict(self.features_), domain)
        if kernel.is_full:
            raise InvalidInputError(
                "space='sobolev' takes one bandwidth per feature, not a matrix."
            )
        return SobolevSpace(np.zeros(n_features) + self.bandwidth_, domain)

    # What was released --------------------------------------------------------------------------

    def _domain(self, n_features: int) -> Domain:
        return Domain(self.row_bounds, n_features)

    def _released(self) -> GridDensity | ProcessDensity:
        d = self.n_features_in_
        if getattr(self, "method_", "process") == "grid":
            cells = Cells.of(self._domain(d), self.cell_counts_.shape[:-1], self._steps(d))
            n_rows = getattr(self, "public_rows_", None)
            return GridDensity(cells, self.cell_counts_, self.noise_variance_, n_rows)
        return ProcessDensity(
            self._space(d),
            self.coefficients_,
            self.scale_,
            self.threshold_,
            self.gain_,
            self.masses_,
        )

    def _check_stored(self, sizes: dict[str, int]) -> None:
        is_grid = getattr(self, "method_", "process") == "grid"
        process = ("bandwidth_", "scale_", "threshold_", "gain_", "coefficients_")
        for name in ("cell_counts_", "noise_variance_") if is_grid else process:
            if getattr(self, name, None) is None:
                raise refuse(name, "given")
        if is_grid:
            shape, most = self.cell_counts_.shape[:-1], MAX_CELLS.get(sizes["d"], 0)
            cells = Cells.of(self._domain(sizes["d"]), shape, self._steps(sizes["d"]))
            if not 2 <= min(shape) <= max(shape) <= most or cells.shape != shape:
                raise refuse("cell_counts_", "counts of cells of one or two features")
            n_nodes = int(np.prod(shape))
        else:
            space = self._space(sizes["d"])
            if isinstance(space, SobolevSpace) and self.coefficients_.shape[:-1] != tuple(
                len(knots) for knots in space.knots
            ):
                raise refuse("coefficients_", "one number per point of the grid and class")
            n_nodes = len(public_nodes(space.domain)[0])
        if sizes["nodes"] != n_nodes or not self.masses_.sum() > 0:
            raise refuse("masses_", "the mass of each cell, not all of them zero")

    def _ask(self, X: ArrayLike) -> tuple[GridDensity | ProcessDensity, Array, Array]:
        """Return the release, rows moved into its box, and which of them were inside.

        A row with missing or infinite numbers stands for the public default.
        """
        rows = np.array(self._rows(X))
        rows[~np.isfinite(rows).all(axis=1)] = self.row_bounds.ball(rows.shape[1])[0]
        released = self._released()
        box = released.cells if isinstance(released, GridDensity) else released.space.domain
        lower, upper = np.array(box.lower), np.array(box.upper)
        inside = np.all((rows >= lower) & (rows <= upper), axis=1)
        return released, np.clip(rows, lower, upper), inside

    def raw_density(self, X: ArrayLike) -> Array:
        """Return the release itself with its noise, cell by cell or as a function; may be negative.

        Points outside the box are moved to it. One column a class where labels were given: the
        class density times the share of the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Values of the release.
        """
        released, rows, _ = self._ask(X)
        values = released.raw(rows)
        return values if len(self.classes_) > 1 else np.asarray(values[:, 0])

    def _joint(self, X: ArrayLike) -> Array:
        released, rows, inside = self._ask(X)
        return np.where(inside[:, None], released.joint(rows), 0.0)

    def density(self, X: ArrayLike) -> Array:
        """Return the density at points: near the release, nowhere negative, 0 outside the box.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The density.
        """
        return np.asarray(self._joint(X).sum(axis=1))

    def class_densities(self, X: ArrayLike) -> Array:
        """Return the density of each class at points, one column a class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The densities.
        """
        shares = np.where(self.class_prior_ > 0, self.class_prior_, np.inf)
        return np.asarray(self._joint(X) / shares)

    def score_samples(self, X: ArrayLike) -> Array:
        """Return the log of the density at points; minus infinity where it is 0.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
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
        return self._line().quantile(asked)

    def _line(self) -> GridDensity:
        check_is_fitted(self)
        released = self._released()
        if not isinstance(released, GridDensity) or self.n_features_in_ != 1:
            raise UnsupportedModeError(
                "Distribution function and quantiles are for method 'grid' and one feature."
            )
        return released

    def plot(self, *, ax: Any = None, raw: bool = False) -> Any:
        """Draw the density of one or two features; `raw` adds the release itself on a line.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new picture.
        raw : bool, default=False
            Draw the release as well.

        Returns
        -------
        matplotlib Axes
            The picture.
        """
        check_is_fitted(self)
        domain = self._domain(self.n_features_in_)
        if domain.n_features > 2:
            raise InvalidInputError(
                f"A picture needs one or two features, the density has {domain.n_features}."
            )
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError:
                raise InvalidInputError(
                    "Pictures need matplotlib: pip install 'sfumato[plot]'."
                ) from None

            ax = plt.subplots()[1]
        if isinstance(self.bounds, TableBounds):
            for name_axis, feature in zip(
                (ax.set_xlabel, ax.set_ylabel), self.bounds.features, strict=False
            ):
                name_axis(feature.name)
        if domain.n_features == 2:
            x, y = (np.linspace(domain.lower[j], domain.upper[j], PLANE) for j in range(2))
            points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
            picture = ax.pcolormesh(x, y, self.density(points).reshape(PLANE, PLANE))
            ax.figure.colorbar(picture, ax=ax, label="density")
            return ax
        points = np.linspace(domain.lower[0], domain.upper[0], LINE)[:, None]
        if len(self.classes_) > 1:
            for label, column in zip(self.classes_, self.class_densities(points).T, strict=True):
                ax.plot(points, column, label=f"class {label}")
        else:
            ax.plot(points, self.density(points), label="private density")
        if raw:
            ax.plot(points, self.raw_density(points), ":", linewidth=0.8, label="release")
        ax.set_ylabel("density")
        ax.legend()
        return ax
