"""The private mean of curves."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import Form, numbers, real, refuse
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.models.base import PrivateEstimator
from sfumato.models.features import GaussianKernel, KnotFeatures
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums.grid import truncate_to_grid
from sfumato.sums.maps import ROUNDING_MARGIN, exact_projection
from sfumato.sums.statistics import Statistic
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]


CURVE_BITS = 34  # coordinates are multiples of 2**-CURVE_BITS: 2**16 of them fit a double
BLOCK = 2**17  # numbers of curves that are smoothed together
COUNT_BITS = 10  # the constant that counts a curve is a multiple of 2**-COUNT_BITS
MIN_SMOOTHING = 1e-6  # keeps every system of equations solvable, whatever was seen of a curve


@dataclass(eq=False, repr=False)
class PrivateMeanCurve(PrivateEstimator):
    r"""``(1/n) sum_i f_i`` plus a Gaussian process, f_i the smoothed and clipped curve i.

    .. math:: f_i = \arg\min_f \frac1{m_i}\sum_j (f(t_j) - y_{ij})^2 + \lambda\|f\|^2,
        \qquad \|f_i\| \le \tau \text{ by scaling.}

    Rows are curves: the values of one curve at the public points t. A missing (or infinite) value
    is a point at which that curve was not observed, so curves on different grids are rows on the
    union of their grids.

    Parameters
    ----------
    points : array-like, optional
        The points t, increasing, one per column; by default equally spaced on [0, 1].
    length : float, default=0.2
        Length scale of the Gaussian kernel in whose space curves are smoothed and noise is added,
        as a share of the range of `points`.
    smoothing : float, default=0.003
        Strength λ, for values scaled to [-1, 1]; at least 1e-6.
    norm : float, default=2.0
        The public norm τ to which smoothed curves are clipped, for values scaled to [-1, 1]. A
        constant curve of value 1 has a norm of about 1 to 2, a wavy one has more.
    $shared

    Attributes
    ----------
    points_ : ndarray of shape (n_points,)
        The points t.
    coefficients_ : ndarray of shape (n_points,)
        What was released: noisy coordinates of the mean curve.
    noise_scale_ : float
        Standard deviation of the noise of one coordinate.
    $guarantee

    Privacy
    -------
    Unit and relation : record (a whole curve); replace_one or add_or_remove_one.
    Released : the sum (or the sum and the count) of clipped curves, with Gaussian noise.
    Sensitivity : 2 τ for the sum (replace), ``√(τ² + c²)`` for sum and count (add or remove), a
        curve being counted with ``c² = τ min(τ, 1)``.
    Guarantee : mu-GDP by the Gaussian process mechanism, hence (epsilon, delta).
    Assumptions and numerics : range, points, kernel and τ are public; sums are exact, noise is
        float-safe. Proof:
        docs/guarantees/mean-curve.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivateMeanCurve
    >>> t = np.linspace(0, 1, 50)
    >>> shifts = np.random.default_rng(0).normal(size=(2000, 1))
    >>> X = np.sin(6 * t) + 0.2 * shifts
    >>> model = PrivateMeanCurve(delta=1e-5, bounds=Bounds(lower=-2.0, upper=2.0)).fit(X)
    >>> bool(np.abs(model.curve(t) - np.sin(6 * t)).max() < 0.3)
    True
    """

    points: ArrayLike | None = None
    _: KW_ONLY
    length: float = 0.2
    smoothing: float = 0.003
    norm: float = 2.0

    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    scales_tables: ClassVar[bool] = False
    in_unit_ball: ClassVar[bool] = False
    parameters: ClassVar[Form] = {
        "length": real(above=0.0),
        "smoothing": real(least=MIN_SMOOTHING),
        "norm": real(above=0.0),
    }
    learned: ClassVar[Form] = {
        "points_": numbers("d"),
        "coefficients_": numbers("d"),
        "noise_scale_": real(least=0.0),
    }

    def fit(
        self,
        X: ArrayLike,
        y: object = None,  # noqa: ARG002 - the contract's y
        groups: ArrayLike | None = None,
    ) -> Self:
        """Smooth and clip each curve, and release their mean once.

        Parameters
        ----------
        X : array-like of shape (n_curves, n_points)
            Curves, a row each; NaN where a curve was not seen.
        y : None
            Not used.
        groups : array-like of shape (n_curves,), optional
            IDs of persons, for unit "person": the curves of a person are averaged. Curves without
            one are dropped.

        $self
        """
        if self.protected_unit is Unit.PERSON and getattr(self.bounds, "per_person", None) == "sum":
            raise UnsupportedModeError(
                "PrivateMeanCurve uses one curve per person, the mean of that person's curves: "
                "per_person='average'."
            )
        records, budget = self._begin(X, None, groups)
        n_points = records.width
        if self.points is None:
            self.points_ = np.linspace(0.0, 1.0, n_points) if n_points > 1 else np.zeros(1)
        else:
            self.points_ = np.asarray(self.points, dtype=np.float64)
        if self.points_.shape != (n_points,):
            raise InvalidInputError(
                f"'points' must have one number per column. Got shape {self.points_.shape} for "
                f"{n_points} columns."
            )
        if not (np.isfinite(self.points_).all() and (np.diff(self.points_) > 0).all()):
            raise InvalidInputError("'points' must be finite and increase strictly.")
        clipped = SmoothedCurves(
            self._space(), *self._value_range(), float(self.smoothing), float(self.norm)
        )
        curves = records.mapped(clipped)  # [C1] each row alone, norm at most 1
        is_public = curves.public_rows is not None
        # The variance at a point where the mean is v is (τ² + c²)(1 + v²/c²) noise units for curves
        # that are counted with c, and |v| <= min(τ, 1): a smoothed curve is no larger than its
        # norm, and values end at 1. It is least at c² = τ min(τ, 1). Curves are divided by τ here,
        # so c is too; it is cut to the grid of sums, so that the count of any curves is exact.
        weight = math.ldexp(math.sqrt(min(1.0, 1 / float(self.norm))), COUNT_BITS)
        weight = math.ldexp(max(math.floor(weight), 1), -COUNT_BITS)
        statistic = CurveSum(n_points, 0.0 if is_public else weight)
        mean = budget.process(statistic)  # [C2] sensitivity of the sum
        budget.charge()  # [C3] charge, then draw
        released = budget.draw(mean, curves)
        count = float(curves.public_rows or 0)
        if not is_public:
            count = max(float(released[-1]) / statistic.weight, 1.0)  # [C4] no rows
        self.coefficients_ = self.norm * released[: curves.width] / count
        self.noise_scale_ = self.norm * budget.noise(mean) / count
        self.guarantee_ = budget.guarantee("points of the curves")
        noise, shape = self.noise_std(self.points_), self.curve(self.points_)  # both released
        if n_points > 1 and np.mean(noise**2) > np.var(shape) / 9:
            warnings.warn(
                "The noise of this mean curve is more than a third of the curve's own variation, "
                "so its shape says little (see noise_std). Use more curves or a larger epsilon.",
                stacklevel=3,
            )
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002 - the hook's sizes
        self._value_range()
        if not (np.diff(self.points_) > 0).all():
            raise refuse("points_", "numbers that increase")

    def _space(self) -> KnotFeatures:
        spread = float(self.points_[-1] - self.points_[0]) or 1.0
        return KnotFeatures(GaussianKernel(self.length * spread), self.points_)

    def _value_range(self) -> tuple[Array, Array]:
        """Middle and half of the public range at each point."""
        box = self.row_bounds.box(len(self.points_))
        if box is None:
            raise MissingBoundsError(
                "PrivateMeanCurve needs the public range of the values: "
                "bounds=Bounds(lower=..., upper=...)."
            )
        return (box[0] + box[1]) / 2, (box[1] - box[0]) / 2

    def curve(self, points: ArrayLike) -> Array:
        """Return the released mean at points, in the units of the values and inside their range.

        Parameters
        ----------
        points : array-like of shape (n_points,)
            Points of the curve's axis.

        Returns
        -------
        ndarray of shape (n_points,)
            The mean.
        """
        check_is_fitted(self)
        at = np.atleast_1d(np.asarray(points, dtype=np.float64))
        middle, half = self._value_range()
        values = np.clip(self._space().evaluate(self.coefficients_, at[:, None]), -1.0, 1.0)
        return np.asarray(
            np.interp(at, self.points_, middle) + np.interp(at, self.points_, half) * values
        )

    def noise_std(self, points: ArrayLike) -> Array:
        """Return the standard deviation of the noise at points: a public number.

        Parameters
        ----------
        points : array-like of shape (n_points,)
            Points of the curve's axis.

        Returns
        -------
        ndarray of shape (n_points,)
            Standard deviations.
        """
        check_is_fitted(self)
        at = np.atleast_1d(np.asarray(points, dtype=np.float64))
        lengths = np.linalg.norm(self._space().transform(at[:, None]), axis=1)
        half = np.interp(at, self.points_, self._value_range()[1])
        return np.asarray(half * self.noise_scale_ * lengths)


# What is added up ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SmoothedCurves:
    """Values of curves to coordinates of their smoothings, clipped to the norm τ and divided by it.

    Each curve on its own: products are exact, so that it has the same coordinates among any others.

    features: Functions spanned by the kernel at the public points.
    middle, half (n_points,): Middle and half of the public range of the values.
    """

    features: KnotFeatures
    middle: Array
    half: Array
    smoothing: float
    norm: float
    ends_in_ball: ClassVar[bool] = True

    @property
    def width(self) -> int:
        return len(self.middle)

    @cached_property
    def _at_knots(self) -> tuple[Array, Array]:
        """The kernel between the points, and the coordinates of the functions there."""
        knots = self.features.knots
        return self.features.kernel(knots, knots), self.features.transform(knots)

    @cached_property
    def _if_all_seen(self) -> tuple[Array, float]:
        return self._basis(np.ones(self.width, dtype=np.bool_))

    def _basis(self, seen: NDArray[np.bool_]) -> tuple[Array, float]:
        """Coordinates of the smoothings of unit vectors, and the length they are divided by."""
        gram, at_knots = self._at_knots
        matrix = smoothing_weights(gram, seen, self.smoothing) @ at_knots
        longest = max(float(np.linalg.norm(matrix, axis=0).max(initial=0.0)), 1e-300)
        return matrix / (longest * (1 + ROUNDING_MARGIN)), longest

    def __call__(self, rows: Array) -> Array:
        # Some at a time, in the cache; no value makes it raise.
        found = np.empty(rows.shape)
        step = max(1, BLOCK // self.width)
        for start in range(0, len(rows), step):
            found[start : start + step] = self._smoothed(rows[start : start + step])
        return found

    def _smoothed(self, rows: Array) -> Array:
        seen = np.isfinite(rows)
        patterns, members = seen[:1], None
        if not seen.all():  # sorting rows takes longer than all that follows
            patterns, members = np.unique(seen, axis=0, return_inverse=True)
            rows = np.where(seen, rows, self.middle)
        scaled = np.clip(rows, self.middle - self.half, self.middle + self.half)
        scaled -= self.middle
        scaled /= self.half
        np.clip(scaled, -1.0, 1.0, out=scaled)
        found = np.empty(scaled.shape)
        for number, pattern in enumerate(patterns):
            curves = slice(None) if members is None else np.flatnonzero(members.ravel() == number)
            basis, longest = self._if_all_seen if members is None else self._basis(pattern)
            reach = math.sqrt(max(int(pattern.sum()), 1)) * (1 + ROUNDING_MARGIN)  # above any row
            inside = scaled if members is None else scaled[curves][:, pattern]
            found[curves] = exact_projection(inside / reach, basis) * (reach * longest)
        return np.asarray(truncate_to_grid(Bounds(norm=1.0).clip(found / self.norm), CURVE_BITS))


@dataclass(frozen=True)
class CurveSum(Statistic):
    """``sum [z; w]`` over coordinates z of the unit ball, with a constant w that counts them.

    Replacing a curve moves it by at most 2, for w stays. Adding or removing one moves it by at most
    ``sqrt(1 + w²)``.

    width: Numbers of a row.
    weight: w, a multiple of ``2**-COUNT_BITS`` up to 1; 0 where the number of curves is public,
        which is not added up then.
    """

    width: int
    weight: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width + (self.weight > 0),)

    @property
    def in_ball(self) -> int:
        return self.width

    def add_up(self, rows: Any, codes: Any) -> Any:  # noqa: ARG002 - classes do not matter
        total = truncate_to_grid(rows, CURVE_BITS).sum(axis=0)
        return np.append(total, self.weight * len(rows)) if self.weight > 0 else total

    def term_sensitivity(self, relation: Relation) -> float:
        return 2.0 if relation is Relation.REPLACE_ONE else math.hypot(1.0, self.weight)


# Smoothing of single curves in the space of a kernel ----------------------------------------------


def smoothing_weights(gram: Array, seen: NDArray[np.bool_], smoothing: float) -> Array:
    """Weights of ``f = sum_j a_j K(., t_j)``, the smoothing of a curve that is 1 at a point seen.

    ``f = argmin_f (1/m) sum_seen (f(t_j) - y_j)² + λ ||f||²`` has ``(K + λ m I) a = y`` on the m
    points at which a curve was seen, and no weight elsewhere. One row for each of them.

    gram: K between all points, (n_points, n_points).
    """
    m = int(seen.sum())
    weights = np.zeros((m, len(seen)))
    if m:
        block = gram[np.ix_(seen, seen)]
        block[np.diag_indices_from(block)] += smoothing * m
        weights[:, seen] = cho_solve(cho_factor(block), np.eye(m)).T
    return weights
