"""A private density, for all rows or for each class: smoothed cells, or a noisy sum of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import (
    Form,
    known_bounds,
    labels,
    numbers,
    one_of,
    optional,
    real,
    refuse,
    whole,
)
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms import ExponentialMechanism, GaussianProcessMechanism
from sfumato.mechanisms.process import SLACK
from sfumato.models.functions.bandwidth import normal_rule, private_spreads, spread_mechanisms
from sfumato.models.functions.density_answers import DensityAnswers
from sfumato.models.functions.domain import Domain
from sfumato.models.functions.grid_density import (
    MAX_CELLS,
    Cells,
    GridDensity,
    GridPlan,
    default_cells,
    release_cells,
)
from sfumato.models.functions.maps import features_from_dict, stored_features
from sfumato.models.functions.process_density import ProcessDensity
from sfumato.models.functions.projection import Nodes
from sfumato.models.functions.spaces import (
    MAX_COORDINATES,
    GaussianSpace,
    SobolevSpace,
    public_features,
    two_sum,
)
from sfumato.models.kernels import GaussianKernel
from sfumato.models.private import PrivateEstimator
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums import Records
from sfumato.sums.grid import MAX_ROWS, MAX_ROWS_SECRET_N
from sfumato.sums.maps import Clipped, MappedRows
from sfumato.tables.bounds import Bounds
from sfumato.tables.frames import is_out_of_core
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

BLOCK = 2**14  # rows whose terms are added up together
PRIVATE_RULE = "private"
METHODS = ("grid", "process")
FEW_FEATURES = 2  # so many at most can be cut into cells
ROUNDED_DOWN = 1 - 1e-12  # shares of epsilon that add up to no more than the whole


def _stored_bandwidth(value: Any, place: str, sizes: dict[str, int]) -> None:
    GaussianKernel(value).whiten(np.zeros((1, sizes["d"])))
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        raise refuse(place, "one bandwidth, or one per feature, or a matrix")


def _stored_release(value: Any, place: str, sizes: dict[str, int]) -> None:
    shape = ("m",) if "m" in sizes else ("knots",) * sizes["d"]
    numbers(*shape, "c")(value, place, sizes)


def _stored_counts(value: Any, place: str, sizes: dict[str, int]) -> None:
    numbers(*(f"cells{axis}" for axis in range(sizes["d"])), "c")(value, place, sizes)


class PrivateDensity(DensityAnswers, PrivateEstimator):
    r"""A private density: noisy counts of cells, smoothed, or a sum of kernels plus a process.

    With one or two features, the counts of public cells get Laplace noise and are smoothed by the
    filter of least estimated risk (method "grid"). Method "process" releases
    ``f(x) = (1/n) sum_i N(x; x_i, H)`` plus a Gaussian process.

    Parameters
    ----------
    bandwidth : float, array-like or "private", default="private"
        One h for all features, one per feature, or a full matrix H (in squared units). It must not
        come from the rows. "private" buys the spread of each feature with a share of epsilon
        and takes the normal rule; it needs the number of rows, hence "replace_one".
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
    bandwidth_share : float, default=0.1
        Share of epsilon for the spreads; not used where the bandwidth is given.
    n_fourier : int, default=2048
        Random Fourier features, used where the exact features of the kernel would be too many
        (from four features on, or for a bandwidth that is small for its box).
    random_state : int, RandomState or None, default=0
        For these public frequencies only.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` gives the estimate without noise.
    unit : {"record", "person"}, default="record"
        One whole row, with its label, is protected, or all rows of a person (method "grid").
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        Public bounds of the rows, which are also where the density lives, with the label set if
        labels are given; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

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
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : grid: the counts of all cells and classes, with Laplace noise. Process: the sum of
        kernels of each class as a finite vector, with Gaussian noise; before it, the spread of each
        feature if they are requested.
    Sensitivity : grid: 2 (replace) or 1 (add or remove), in the L1 norm. Process:
        ``sqrt(2 - 2 k_min) <= √2`` (replace) or 1 (add or remove) in the space of the kernel, for
        any number of classes together; in the Sobolev space computed numerically.
    Guarantee : grid: pure epsilon. Process: mu-GDP by the Gaussian process mechanism, plus bounded
        range for the spreads.
    Assumptions and numerics : bounds, bandwidth, cells and label set are public; counts are exact,
        coordinates carry 2⁻¹⁰ for rounding, noise is float-safe. Proofs:
        docs/guarantees/grid-density.md and docs/guarantees/density.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds
    >>> from sfumato.models.functions import PrivateDensity
    >>> X = np.random.default_rng(0).normal(0.4, 0.1, size=(5000, 1))
    >>> model = PrivateDensity(delta=1e-5, bounds=Bounds(lower=0.0, upper=1.0)).fit(X)
    >>> bool(model.density([[0.4]])[0] > 5 * model.density([[0.8]])[0])
    True
    >>> model.n_modes(), bool(abs(model.quantile(0.5) - 0.4) < 0.02)
    (1, True)
    >>> model.sample(100).shape
    (100, 1)
    """

    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    scales_tables: ClassVar[bool] = False
    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "classes_": labels("c"),
        "space": one_of("gaussian", "sobolev"),
        "method_": optional(one_of(*METHODS)),
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

    def __init__(
        self,
        bandwidth: Any = PRIVATE_RULE,
        *,
        space: str = "gaussian",
        method: str | None = None,
        n_cells: int | None = None,
        step: float | Sequence[float | None] | None = None,
        bandwidth_share: float = 0.1,
        n_fourier: int = 2048,
        random_state: Any = 0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.space = space
        self.method = method
        self.n_cells = n_cells
        self.step = step
        self.bandwidth_share = bandwidth_share
        self.n_fourier = n_fourier
        self.random_state = random_state
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Release the sums of kernels of all rows, or of each class in `y`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels, for a density of each class.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._validate_privacy_params()
        if self.method == "process" or not is_out_of_core(X):
            return self._fit_rows(X, y, groups, bounds)
        records, classes = self._read(self._labelled_rows, X, y, groups)
        if self._chosen_method(records.width) == "process":
            self._check_rows(X)  # which refuses rows that are not in memory
        self._forget()
        self.classes_, self.method_ = classes, "grid"
        return self._fit_grid(records, bounds)

    def _fit_rows(self, X: Any, y: Any, groups: Any, bounds: Bounds) -> Self:
        """Release a density of rows in memory."""
        rows, codes, classes = self._labelled_rows(X, y)
        method = self._chosen_method(rows.shape[1])
        if method == "process":
            self._check_choices()
            self._refuse_persons()
        if codes is None:
            codes = np.broadcast_to(np.intp(0), len(rows))
        records = self._array_records(rows, codes, self._groups(X, groups))
        self._forget()
        self.classes_, self.method_ = classes, method
        if method == "grid":
            return self._fit_grid(records, bounds)
        inside = Clipped(bounds, rows.shape[1])  # [D1] rows inside the public box
        return self._fit_process(MappedRows(rows, inside, inside.width), codes)

    def _refuse_persons(self) -> None:
        if self.person_unit is not None:
            raise UnsupportedModeError(
                "Densities by random processes (method 'process') protect records; with "
                "unit='person' use method='grid'."
            )

    def _forget(self) -> None:
        """Drop what an earlier fit by the other method has left."""
        for name in self.stored_form:
            if name.endswith("_"):
                self.__dict__.pop(name, None)

    def _fit_grid(self, records: Records, bounds: Bounds) -> Self:
        """Release the counts of cells; see docs/guarantees/grid-density.md."""
        d = records.width
        per_axis = self.n_cells or default_cells(self.epsilon, records.public_rows, d)
        gaps = self._may_be_missing()
        cells = Cells.of(self._domain(d), (per_axis,) * d, self._steps(d), may_be_missing=gaps)
        if not gaps:  # [D1] a missing number counts as the middle of its range
            records = records.mapped(Clipped(bounds, d))
        plan = GridPlan.of(records, cells, len(self.classes_), self.epsilon, self.delta)
        plan.mechanism.for_size(plan.statistic.size)
        receipt = self._charge(plan.mechanism)  # [S3] charge, then draw
        self.cell_counts_ = release_cells(records, plan, receipt)
        self.noise_variance_ = plan.noise_variance
        self.public_rows_ = None if gaps else records.public_rows  # of those that are counted
        masses = self._grid().masses  # no rows from here on
        self.masses_ = masses.reshape(-1, masses.shape[-1])
        self.class_prior_ = self.masses_.sum(axis=0)
        self.guarantee_ = self._guarantee(receipt)
        return self

    def _may_be_missing(self) -> bool:
        """Return whether rows without a number are declared, and left out of the density."""
        table = self.bounds
        return isinstance(table, TableBounds) and any(f.missing for f in table.features)

    def _steps(self, n_features: int) -> tuple[float | None, ...]:
        """Return the public distance of neighbouring values of each feature, or None."""
        given = self.step
        single = given is None or isinstance(given, int | float)
        steps: tuple[Any, ...] = (given,) * n_features if single else tuple(cast("Any", given))
        sides = self._domain(n_features).width
        fit = len(steps) == n_features and all(
            step is None or side / MAX_ROWS_SECRET_N < step <= side
            for step, side in zip(steps, sides, strict=True)
        )
        if not fit:
            raise InvalidInputError(
                "'step' must be positive and at most the width of its feature, one for all "
                f"features, or one or None for each. Got {given!r} instead."
            )
        return tuple(None if step is None else float(step) for step in steps)

    def _grid(self) -> GridDensity:
        d = self.n_features_in_
        cells = Cells.of(self._domain(d), self.cell_counts_.shape[:-1], self._steps(d))
        n_rows = getattr(self, "public_rows_", None)
        return GridDensity(cells, self.cell_counts_, self.noise_variance_, n_rows)

    def _fit_process(self, rows: MappedRows, codes: NDArray[np.intp]) -> Self:
        """Release the sums of kernels; see docs/guarantees/density.md."""
        self._try_space(rows.shape[1])
        spreads, mechanism = self._mechanisms(rows.shape[1])  # [D2] the budget divided
        largest = max(self.n_fourier, MAX_COORDINATES)  # whatever the bandwidth will be
        mechanism.for_size(largest * len(self.classes_))
        receipt = self._charge(*spreads, mechanism)  # [D3] charge all, then draw
        self.bandwidth_ = self._bandwidth(rows, spreads, receipt)  # [D4] spreads, if bought
        space = self._public_space(rows.shape[1])
        is_public = Relation(self.relation) is Relation.REPLACE_ONE
        bound = space.sensitivity(self.relation, len(self.classes_))
        # [D7] the mechanism covers SLACK of it; rounding errors of very many rows may be more
        rounding = space.rounding(len(rows) if is_public else self._max_rows)
        bound = max(bound, (bound + rounding) / (1 + SLACK))
        sums = _added_up(space, rows, codes, len(self.classes_))  # one column a class
        self.coefficients_ = bound * mechanism.release(sums / bound, ledger=receipt)  # [D5]

        density = ProcessDensity.of(  # [D6] no rows
            space, self.coefficients_, len(rows) if is_public else None
        )
        self.scale_, self.threshold_, self.gain_ = density.scale, density.threshold, density.gain
        self.masses_, self.class_prior_ = density.masses, density.masses.sum(axis=0)
        self.guarantee_ = self._guarantee(receipt)
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if self._is_grid():
            self._check_stored_grid(sizes)
            return
        self._require("bandwidth_", "scale_", "threshold_", "gain_", "coefficients_")
        space = self._fitted_space()
        if isinstance(space, SobolevSpace) and self.coefficients_.shape[:-1] != tuple(
            len(knots) for knots in space.knots
        ):
            raise refuse("coefficients_", "one number per point of the grid and class")
        if sizes["nodes"] != len(Nodes(space.domain).points) or not self.masses_.sum() > 0:
            raise refuse("masses_", "the mass around each public point, not all of them zero")

    def _check_stored_grid(self, sizes: dict[str, int]) -> None:
        self._require("cell_counts_", "noise_variance_")
        shape, most = self.cell_counts_.shape[:-1], MAX_CELLS.get(sizes["d"], 0)
        if not 2 <= min(shape) <= max(shape) <= most or self._grid().cells.shape != shape:
            raise refuse("cell_counts_", "counts of cells of one or two features")
        if sizes["nodes"] != np.prod(shape) or not self.masses_.sum() > 0:
            raise refuse("masses_", "the mass of each cell, not all of them zero")

    def _require(self, *names: str) -> None:
        for name in names:
            if getattr(self, name, None) is None:
                raise refuse(name, "given")

    def _is_grid(self) -> bool:
        return getattr(self, "method_", "process") == "grid"

    def _chosen_method(self, n_features: int) -> str:
        """Return the method that the parameters ask for; a public rule."""
        if self.method is not None and self.method not in METHODS:
            raise InvalidInputError(
                f"'method' must be 'grid', 'process' or None. Got {self.method!r} instead."
            )
        few = n_features <= FEW_FEATURES
        asks_process = not self._buys_bandwidth() or self.space != "gaussian"
        method = self.method or ("grid" if few and not asks_process else "process")
        if method == "grid" and not few:
            raise UnsupportedModeError(
                f"method='grid' is for one or two features. Got {n_features}: use 'process'."
            )
        if method == "grid" and self.n_cells is not None:
            most = MAX_CELLS[n_features]
            if not isinstance(self.n_cells, int) or not 2 <= self.n_cells <= most:
                raise InvalidInputError(
                    f"'n_cells' must be a whole number from 2 to {most} for {n_features} "
                    f"feature(s), or None. Got {self.n_cells!r} instead."
                )
        return method

    def _check_choices(self) -> None:
        if self.space not in ("gaussian", "sobolev"):
            raise InvalidInputError(
                f"'space' must be 'gaussian' or 'sobolev'. Got {self.space!r} instead."
            )
        if isinstance(self.bandwidth, str) and not self._buys_bandwidth():
            raise InvalidInputError(
                f"'bandwidth' must be numbers or '{PRIVATE_RULE}'. Got {self.bandwidth!r} instead."
            )
        replaces = Relation(self.relation) is Relation.REPLACE_ONE
        if self._buys_bandwidth() and not replaces:
            raise UnsupportedModeError(
                "bandwidth='private' uses the number of rows, which relation 'add_or_remove_one' "
                "keeps secret. Give a bandwidth."
            )
        if self._buys_bandwidth() and not 0 < self.bandwidth_share < 1:
            raise InvalidInputError(
                f"'bandwidth_share' must lie in (0, 1). Got {self.bandwidth_share} instead."
            )

    def _buys_bandwidth(self) -> bool:
        return isinstance(self.bandwidth, str) and self.bandwidth == PRIVATE_RULE

    def _mechanisms(
        self, n_features: int
    ) -> tuple[list[ExponentialMechanism], GaussianProcessMechanism]:
        """Divide epsilon between the spreads and the function (in units of its sensitivity)."""
        share = self.bandwidth_share if self._buys_bandwidth() else 0.0
        mechanism = GaussianProcessMechanism.calibrate(
            sensitivity=1.0,
            epsilon=self.epsilon * ((1 - share) * ROUNDED_DOWN if share else 1.0),
            delta=self.delta,
        )
        if not share:
            return [], mechanism
        return spread_mechanisms(self.epsilon * share * ROUNDED_DOWN, n_features), mechanism

    def _try_space(self, n_features: int) -> None:
        """Find out whether the space can be built before anything is charged."""
        bought = self._buys_bandwidth()
        self.bandwidth_ = self._domain(n_features).width if bought else self._given_bandwidth()
        self._public_space(n_features)

    def _given_bandwidth(self) -> Array:
        return np.asarray(GaussianKernel(self.bandwidth).bandwidth, dtype=np.float64)

    def _bandwidth(
        self, rows: MappedRows, spreads: list[ExponentialMechanism], receipt: Receipt
    ) -> Array:
        if not spreads:
            return self._given_bandwidth()
        domain = self._domain(rows.shape[1])
        return normal_rule(private_spreads(rows, domain, spreads, receipt), len(rows), domain.width)

    def _domain(self, n_features: int) -> Domain:
        return Domain(self.row_bounds, n_features)

    def _public_space(self, n_features: int) -> GaussianSpace | SobolevSpace:
        """Build the space from public numbers; the features are kept for later queries."""
        domain, kernel = self._domain(n_features), GaussianKernel(self.bandwidth_)
        if self.space == "sobolev":
            if kernel.is_full:
                raise InvalidInputError(
                    "space='sobolev' takes one bandwidth per feature, not a matrix."
                )
            return SobolevSpace(np.zeros(n_features) + self.bandwidth_, domain)
        features = public_features(
            kernel,
            self.row_bounds,
            n_features,
            fourier=self.n_fourier,
            random_state=self.random_state,
        )
        self.features_ = features.to_dict()
        return GaussianSpace(kernel, features, domain)

    def _fitted_space(self) -> GaussianSpace | SobolevSpace:
        check_is_fitted(self)
        domain = self._domain(self.n_features_in_)
        if self.space == "sobolev":
            return SobolevSpace(np.zeros(self.n_features_in_) + self.bandwidth_, domain)
        features = features_from_dict(self.features_)
        return GaussianSpace(GaussianKernel(self.bandwidth_), features, domain)

    def _released(self) -> GridDensity | ProcessDensity:
        check_is_fitted(self)
        if self._is_grid():
            return self._grid()
        return ProcessDensity(
            self._fitted_space(),
            self.coefficients_,
            self.scale_,
            self.threshold_,
            self.gain_,
            self.masses_,
        )

    def _box(self) -> tuple[Array, Array]:
        if self._is_grid():
            cells = self._grid().cells
            return np.array(cells.lower), np.array(cells.upper)
        domain = self._domain(self.n_features_in_)
        return domain.lower, domain.upper

    def _queries(self, X: ArrayLike) -> Array:
        """Check rows; one with missing or infinite numbers stands for the public default."""
        rows = np.array(self._check_rows(X, reset=False))
        rows[~np.isfinite(rows).all(axis=1)] = self.row_bounds.default_row(rows.shape[1])
        return rows


def _added_up(
    space: GaussianSpace | SobolevSpace, rows: MappedRows, codes: NDArray[np.intp], n_classes: int
) -> Array:
    """The statistic of all rows, from blocks: nothing but the rows is as long as they are."""
    classes = np.eye(n_classes)
    total = lost = np.zeros(())
    for start in range(0, max(1, len(rows)), BLOCK):
        part = slice(start, start + BLOCK)
        total, lost = two_sum(total, lost, space.statistic(rows[part], classes[codes[part]]))
    return np.asarray(total + lost)
