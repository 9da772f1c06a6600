"""A private kernel density estimate, for all rows or for each class."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.accounting.receipt import Receipt
from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.functions.bandwidth import normal_rule, private_spreads, spread_mechanisms
from sfumato.functions.domain import Domain
from sfumato.functions.maps import features_from_dict, stored_features
from sfumato.functions.plotting import plot_density
from sfumato.functions.projection import Nodes, density_threshold
from sfumato.functions.spaces import MOST_COORDINATES, GaussianSpace, SobolevSpace, public_features
from sfumato.guarantee import Mode, Relation
from sfumato.kernels import GaussianKernel
from sfumato.mechanisms import ExponentialMechanism, GaussianProcessMechanism
from sfumato.persistence.forms import (
    Form,
    known_bounds,
    labels,
    numbers,
    one_of,
    optional,
    real,
    refuse,
)
from sfumato.private import PrivateEstimator

__all__ = ["PrivateDensity"]

Array = NDArray[np.float64]

PRIVATE_RULE = "private"
ROUNDED_DOWN = 1 - 1e-12  # shares of epsilon that add up to no more than the whole


def _stored_bandwidth(value: Any, place: str, sizes: dict[str, int]) -> None:
    GaussianKernel(value).whiten(np.zeros((1, sizes["d"])))
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        raise refuse(place, "one bandwidth, or one a feature, or a matrix")


def _stored_release(value: Any, place: str, sizes: dict[str, int]) -> None:
    shape = ("m",) if "m" in sizes else ("knots",) * sizes["d"]
    numbers(*shape, "c")(value, place, sizes)


class PrivateDensity(DensityMixin, PrivateEstimator):
    r"""``f(x) = (1/n) sum_i N(x; x_i, H)`` plus a Gaussian process: a private density.

    Parameters
    ----------
    bandwidth : float, array-like or "private", default="private"
        One h for all features, one a feature, or a full matrix H (in squared units). It must not
        come from the rows. "private" buys the spread of each feature with a share of epsilon
        and takes the normal rule; it needs the number of rows, hence "replace_one".
    space : {"gaussian", "sobolev"}, default="gaussian"
        Where the noise lives: smooth noise with the kernel of the estimate (section 4.1 of the
        paper), or rough noise with an exponential kernel (section 4.2, up to three features).
    bandwidth_share : float, default=0.1
        Share of epsilon for the spreads; not used where the bandwidth is given.
    n_fourier : int, default=2048
        Random Fourier features, used where the exact features of the kernel would be too many
        (from four features on, or for a bandwidth that is small for its box).
    random_state : int, RandomState or None, default=0
        For these public frequencies only.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` gives the estimate without noise.
    unit : {"record"}, default="record"
        One whole row, with its label, is protected.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours.
    mode : {"strict", "paper"}, default="strict"
        "paper": noise and sensitivity as printed, which keep their promise with room to spare;
        epsilon at most 1, replace_one only.
    bounds : Bounds
        Public bounds of the rows, which are also where the density lives, with the label set if
        labels are given; required.
    ledger : DatasetBudget, optional
        Who pays; see `sfumato.Ledger`.

    Attributes
    ----------
    bandwidth_ : ndarray
        The bandwidth used: () or (n_features,) or (n_features, n_features).
    coefficients_ : ndarray
        What was released: noisy coordinates of the sums of kernels, one column a class.
    scale_ : float
        ``1 / (n normaliser)``, which makes the release a density estimate; where n is secret, the
        release is divided by its own integral.
    threshold_, gain_ : float
        τ and g of the density ``g max(f - τ, 0)``.
    masses_ : ndarray of shape (n_nodes, n_classes)
        Mass of the density around public points of the box; sums to one.
    classes_, class_prior_ : ndarray of shape (n_classes,)
        The label set and the share of each class; a single 0 without labels.
    guarantee_ : Guarantee
        What is promised.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : the sum of kernels of each class as a finite vector, with Gaussian noise; before
        it, the spread of each feature if they are asked for.
    Sensitivity : ``sqrt(2 - 2 k_min) <= √2`` (replace) or 1 (add or remove) in the space of the
        kernel, for any number of classes together; in the Sobolev space computed numerically.
    Guarantee : mu-GDP by the Gaussian process mechanism, plus bounded range for the spreads.
    Assumptions and numerics : bounds, bandwidth and label set are public; coordinates carry 2⁻¹⁰
        for rounding, noise is float-safe. Proof: docs/guarantees/density.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds
    >>> from sfumato.functions import PrivateDensity
    >>> X = np.random.default_rng(0).normal(0.4, 0.1, size=(5000, 1))
    >>> model = PrivateDensity(0.05, delta=1e-5, bounds=Bounds(lower=0.0, upper=1.0)).fit(X)
    >>> bool(model.density([[0.4]])[0] > 5 * model.density([[0.8]])[0])
    True
    >>> model.sample(100).shape
    (100, 1)
    """

    offered_modes = (Mode.STRICT, Mode.PAPER)

    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "classes_": labels("c"),
        "space": one_of("gaussian", "sobolev"),
        "bandwidth_": _stored_bandwidth,
        "features_": optional(stored_features),
        "scale_": real(least=0.0),
        "threshold_": real(),
        "gain_": real(least=0.0),
        "coefficients_": _stored_release,
        "masses_": numbers("nodes", "c", least=0.0),
        "class_prior_": numbers("c", least=0.0),
    }

    def __init__(
        self,
        bandwidth: Any = PRIVATE_RULE,
        *,
        space: str = "gaussian",
        bandwidth_share: float = 0.1,
        n_fourier: int = 2048,
        random_state: Any = 0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        mode: str = "strict",
        bounds: Bounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.space = space
        self.bandwidth_share = bandwidth_share
        self.n_fourier = n_fourier
        self.random_state = random_state
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.mode = mode
        self.bounds = bounds
        self.ledger = ledger

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Release the sums of kernels of all rows, or of each class in `y`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels, for a density of each class.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._check_promise()
        self._check_choices()
        rows = self._check_rows(X)
        if y is None:
            codes, self.classes_ = np.zeros(len(rows), dtype=np.intp), np.zeros(1, dtype=int)
        else:
            codes, self.classes_ = self._check_labels(rows, y, bounds)
        self._warn_if_weak(len(rows))
        self._try_space(rows.shape[1])

        rows = bounds.clip(rows)  # [D1] rows inside the public box
        spreads, mechanism = self._mechanisms(rows.shape[1])  # [D2] the budget divided
        largest = max(self.n_fourier, MOST_COORDINATES)  # whatever the bandwidth will be
        mechanism.for_size(largest * len(self.classes_))
        receipt = self._prepay(*spreads, mechanism)  # [D3] charge all, then draw
        self.bandwidth_ = self._bandwidth(rows, spreads, receipt)  # [D4] spreads, if bought
        space = self._public_space(rows.shape[1])
        bound = space.sensitivity(self.relation, len(self.classes_), self.mode)
        sums = space.statistic(rows, np.eye(len(self.classes_))[codes])  # one column a class
        self.coefficients_ = bound * mechanism.release(sums / bound, ledger=receipt)  # [D5]

        self._become_density(space, self._public_count(len(rows)))  # [D6] no rows
        self.guarantee_ = self._guarantee(receipt)
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        space = self._fitted_space()
        if isinstance(space, SobolevSpace) and self.coefficients_.shape[:-1] != tuple(
            len(knots) for knots in space.knots
        ):
            raise refuse("coefficients_", "one number a point of the grid and class")
        if sizes["nodes"] != len(Nodes(space.domain).points) or not self.masses_.sum() > 0:
            raise refuse("masses_", "the mass around each public point, not all of them zero")

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
        if Mode(self.mode) is Mode.PAPER and not replaces:
            raise UnsupportedModeError("mode='paper' is printed for relation 'replace_one' only.")
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
            mode=self.mode,
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
        self, rows: Array, spreads: list[ExponentialMechanism], receipt: Receipt
    ) -> Array:
        if not spreads:
            return self._given_bandwidth()
        domain = self._domain(rows.shape[1])
        return normal_rule(private_spreads(rows, domain, spreads, receipt), len(rows), domain.width)

    def _domain(self, n_features: int) -> Domain:
        assert self.bounds is not None  # noqa: S101 - checked by fit
        return Domain(self.bounds, n_features)

    def _public_space(self, n_features: int) -> GaussianSpace | SobolevSpace:
        """Build the space from public numbers; the features are kept for later queries."""
        assert self.bounds is not None  # noqa: S101 - checked by fit
        domain, kernel = self._domain(n_features), GaussianKernel(self.bandwidth_)
        if self.space == "sobolev":
            if kernel.is_full:
                raise InvalidInputError("space='sobolev' takes one bandwidth a feature, no matrix.")
            return SobolevSpace(np.zeros(n_features) + self.bandwidth_, domain)
        features = public_features(
            kernel,
            self.bounds,
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

    def _public_count(self, n_rows: int) -> int | None:
        return n_rows if Relation(self.relation) is Relation.REPLACE_ONE else None

    def _become_density(self, space: GaussianSpace | SobolevSpace, n_rows: int | None) -> None:
        """Turn the release into a density, on public nodes."""
        nodes = Nodes(space.domain)
        sums = space.values_at_nodes(self.coefficients_, nodes)
        total = sums.sum() * nodes.volume / space.normaliser if n_rows is None else n_rows
        self.scale_ = 1 / (space.normaliser * max(float(total), 1.0))
        self.threshold_, self.gain_ = density_threshold(sums * self.scale_, nodes.volume)
        self.masses_ = self._nearest(sums * self.scale_) * nodes.volume
        self.class_prior_ = self.masses_.sum(axis=0)

    def _nearest(self, raw: Array) -> Array:
        return np.asarray(self.gain_ * np.maximum(raw - self.threshold_, 0.0))

    # The released function -----------------------------------------------------------------

    def raw_density(self, X: ArrayLike) -> Array:
        """Give the release itself, ``f`` with its noise: it may be negative.

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
        space = self._fitted_space()
        values = self._raw(space, self._queries(X))
        return values if self._has_classes() else np.asarray(values[:, 0])

    def _queries(self, X: ArrayLike) -> Array:
        """Check rows; one with missing or infinite numbers stands for the public default."""
        assert self.bounds is not None  # noqa: S101 - checked by fit
        rows = np.array(self._check_rows(X, reset=False))
        rows[~np.isfinite(rows).all(axis=1)] = self.bounds.default_row(rows.shape[1])
        return rows

    def _raw(self, space: GaussianSpace | SobolevSpace, rows: Array) -> Array:
        inside = np.clip(rows, space.domain.lower, space.domain.upper)
        return np.asarray(space.values(self.coefficients_, inside) * self.scale_)

    def _has_classes(self) -> bool:
        return len(self.classes_) > 1

    def _joint(self, X: ArrayLike) -> Array:
        space = self._fitted_space()
        rows = self._queries(X)
        inside = np.all((rows >= space.domain.lower) & (rows <= space.domain.upper), axis=1)
        return np.where(inside[:, None], self._nearest(self._raw(space, rows)), 0.0)

    def density(self, X: ArrayLike) -> Array:
        """Give the density at points: near the release, nowhere negative, 0 outside the box.

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
        """Give the density of each class at points, one column a class.

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
        """Give the log of the density at points; minus infinity where it is 0.

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
        """Give the total log-likelihood of points.

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
        generator = check_random_state(random_state)
        chances = np.ravel(self.masses_) / self.masses_.sum()
        numbers = generator.choice(chances.size, size=n_samples, p=chances)
        nodes, codes = np.divmod(numbers, len(self.classes_))
        uniform = generator.uniform(size=(n_samples, self.n_features_in_))
        rows = Nodes(self._domain(self.n_features_in_)).scatter(nodes, uniform)
        return (rows, self.classes_[codes]) if self._has_classes() else rows

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
        return plot_density(self, ax=ax, raw=raw)
