"""The private mean of curves."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.functions.features import KnotFeatures
from sfumato.functions.plotting import plot_curve
from sfumato.guarantee import Relation, Unit
from sfumato.kernels import ExponentialKernel, GaussianKernel, Kernel, MaternKernel
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.private import PrivateEstimator
from sfumato.storage.forms import Form, known_bounds, numbers, one_of, real, refuse
from sfumato.sums.persons import gathered
from sfumato.tables.schema import TableBounds

__all__ = ["PrivateMeanCurve", "smoothing_weights"]

Array = NDArray[np.float64]

BLOCK = 1024  # curves that are smoothed together
SMALLEST_SMOOTHING = 1e-6  # keeps every system of equations solvable, whatever was seen of a curve
KERNELS = ("gaussian", "matern32", "matern52", "exponential")


Runs = tuple[tuple[int, int], ...]  # curves of a person, and how many persons have so many


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
    kernel : {"gaussian", "matern32", "matern52", "exponential"}, default="gaussian"
        Kernel of the space in which curves are smoothed and noise is added.
    length : float, default=0.2
        Its length scale, as a share of the range of `points`.
    smoothing : float, default=0.003
        Strength λ, for values scaled to [-1, 1]; at least 1e-6.
    norm : float, default=2.0
        The public norm τ to which smoothed curves are clipped, for values scaled to [-1, 1]. A
        constant curve of value 1 has a norm of about 1 to 2, a wavy one has more.
    epsilon, delta : float, default=1.0, 1e-6
        The budget. ``epsilon=inf`` gives the mean without noise.
    unit : {"record", "person"}, default="record"
        One whole curve is protected, or all curves of a person.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours.
    bounds : Bounds
        Public range of the values, a box; required.
    ledger : DatasetBudget, optional
        Who pays; see `sfumato.Ledger`.

    Attributes
    ----------
    points_ : ndarray of shape (n_points,)
        The points t.
    coefficients_ : ndarray of shape (n_points,)
        What was released: noisy coordinates of the mean curve.
    noise_scale_ : float
        Standard deviation of the noise of one coordinate.
    guarantee_ : Guarantee
        What is promised.

    Privacy
    -------
    Unit and relation : record (a whole curve); replace_one or add_or_remove_one.
    Released : the mean (or the sum and the count) of clipped curves, with Gaussian noise.
    Sensitivity : ``2 τ / n`` (replace), ``√(τ² + c²)`` for sum and count (add or remove), a curve
        being counted with ``c² = τ min(τ, 1)``.
    Guarantee : mu-GDP by the Gaussian process mechanism, hence (epsilon, delta).
    Assumptions and numerics : range, points, kernel and τ are public; noise is float-safe. Proof:
        docs/guarantees/mean-curve.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds
    >>> from sfumato.functions import PrivateMeanCurve
    >>> t = np.linspace(0, 1, 50)
    >>> shifts = np.random.default_rng(0).normal(size=(2000, 1))
    >>> X = np.sin(6 * t) + 0.2 * shifts
    >>> model = PrivateMeanCurve(delta=1e-5, bounds=Bounds(lower=-2.0, upper=2.0)).fit(X)
    >>> bool(np.abs(model.curve(t) - np.sin(6 * t)).max() < 0.3)
    True
    """

    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    scales_tables: ClassVar[bool] = False
    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "points_": numbers("d"),
        "coefficients_": numbers("d"),
        "noise_scale_": real(least=0.0),
        "kernel": one_of(*KERNELS),
        "length": real(above=0.0),
    }

    def __init__(
        self,
        points: ArrayLike | None = None,
        *,
        kernel: str = "gaussian",
        length: float = 0.2,
        smoothing: float = 0.003,
        norm: float = 2.0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.points = points
        self.kernel = kernel
        self.length = length
        self.smoothing = smoothing
        self.norm = norm
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

        Returns
        -------
        Self
            The fitted estimator.
        """
        self._check_promise()
        self._check_choices()
        rows = self._check_rows(X)
        self.points_ = self._public_points(rows.shape[1])
        runs, rows = self._persons(rows, self._groups(X, groups))
        number = sum(n_persons for _, n_persons in runs)

        total = self._sum_of_curves(rows, runs)  # [C1] each row alone, norm at most τ
        mechanism = self._mechanism(number).for_size(rows.shape[1] + 1)  # [C2] sensitivity
        receipt = self._prepay(mechanism)  # [C3] charge, then draw
        if Relation(self.relation) is Relation.REPLACE_ONE:
            self.coefficients_ = mechanism.release(total / number, ledger=receipt)
            count = 1.0
        else:
            weight = self._count_weight()
            released = mechanism.release(np.append(total, weight * number), ledger=receipt)
            count = max(float(released[-1]) / weight, 1.0)  # [C4] no rows
            self.coefficients_ = released[:-1] / count

        self.noise_scale_ = math.sqrt(mechanism.variance()) / count
        self.guarantee_ = self._guarantee(receipt, "points of the curves")
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002 - the hook's sizes
        self._value_range()
        if not (np.diff(self.points_) > 0).all():
            raise refuse("points_", "numbers that increase")

    def _check_choices(self) -> None:
        if self.kernel not in KERNELS:
            raise InvalidInputError(f"'kernel' must be one of {KERNELS}. Got {self.kernel!r}.")
        if not self.smoothing >= SMALLEST_SMOOTHING:
            raise InvalidInputError(
                f"'smoothing' must be at least {SMALLEST_SMOOTHING:g}. Got {self.smoothing}."
            )
        for name in ("length", "smoothing", "norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInputError(
                    f"'{name}' must be positive and finite. Got {getattr(self, name)} instead."
                )

    def _public_points(self, n_points: int) -> Array:
        if self.points is None:
            return np.linspace(0.0, 1.0, n_points) if n_points > 1 else np.zeros(1)
        points = np.asarray(self.points, dtype=np.float64)
        if points.shape != (n_points,):
            raise InvalidInputError(
                f"'points' must have one number per column. Got shape {points.shape} for "
                f"{n_points} columns."
            )
        if not (np.isfinite(points).all() and (np.diff(points) > 0).all()):
            raise InvalidInputError("'points' must be finite and increase strictly.")
        return points

    def _space(self) -> KnotFeatures:
        """Functions spanned by the kernel at the public points."""
        spread = float(self.points_[-1] - self.points_[0]) or 1.0
        length = self.length * spread
        kernel: Kernel
        if self.kernel == "gaussian":
            kernel = GaussianKernel(length)
        elif self.kernel == "exponential":
            kernel = ExponentialKernel(1 / length)
        else:
            kernel = MaternKernel(1.5 if self.kernel == "matern32" else 2.5, length)
        return KnotFeatures(kernel, self.points_)

    def _value_range(self) -> tuple[Array, Array]:
        """Middle and half of the public range at each point."""
        box = self.row_bounds.box(len(self.points_))
        if box is None:
            raise MissingBoundsError(
                "PrivateMeanCurve needs the public range of the values: "
                "bounds=Bounds(lower=..., upper=...)."
            )
        return (box[0] + box[1]) / 2, (box[1] - box[0]) / 2

    def _persons(self, rows: Array, groups: Any) -> tuple[Runs, Array]:
        """How many curves how many persons have, one each without IDs, and the curves in order."""
        if self.person_unit is None:
            self._warn_if_weak(len(rows))
            return ((1, len(rows)),), rows
        if not self.person_unit.averages:
            raise UnsupportedModeError(
                "PrivateMeanCurve takes one curve of each person, the mean of hers: "
                "per_person='average'."
            )
        found = gathered(rows, np.zeros(len(rows), dtype=np.intp), groups, self.person_unit)
        if Relation(self.relation) is Relation.REPLACE_ONE:  # their number is public
            if not found.n_persons:
                raise InvalidInputError("There are no persons to learn from: no row has an ID.")
            self._warn_if_weak(found.n_persons)
        return found.runs, rows[found.places]

    def _sum_of_curves(self, rows: Array, runs: Runs) -> Array:
        """Coordinates of the smoothed and clipped curves, of a person their mean, added up."""
        features, total, place = self._space(), np.zeros(rows.shape[1]), 0
        for size, n_persons in runs:
            end, step = place + size * n_persons, max(BLOCK // size, 1) * size
            for start in range(place, end, step):
                curves = self._smoothed(rows[start : min(start + step, end)], features)
                total += curves.reshape(-1, size, curves.shape[1]).mean(axis=1).sum(axis=0)
            place = end
        return total

    def _smoothed(self, rows: Array, features: KnotFeatures) -> Array:
        """Coordinates of the smoothed curves, clipped to the norm τ; each row alone."""
        middle, half = self._value_range()
        seen = np.isfinite(rows)
        known = np.clip(np.where(seen, rows, middle), middle - half, middle + half)
        scaled = np.clip((known - middle) / half, -1.0, 1.0)
        weights = smoothing_weights(features.kernel, features.knots, scaled, seen, self.smoothing)
        return Bounds(norm=self.norm).clip(weights @ features.transform(features.knots))

    def _mechanism(self, n_rows: int) -> GaussianProcessMechanism:
        if Relation(self.relation) is Relation.REPLACE_ONE:
            bound = 2 * self.norm / n_rows
        else:
            bound = math.hypot(self.norm, self._count_weight())  # a curve and what counts it
        return GaussianProcessMechanism.calibrate(
            sensitivity=bound, epsilon=self.epsilon, delta=self.delta
        )

    def _count_weight(self) -> float:
        """The constant c that counts a curve: noise at a point is least at ``c² = τ min(τ, 1)``.

        The variance at a point where the mean is v is ``(τ² + c²)(1 + v²/c²)`` noise units, and
        ``|v| <= min(τ, 1)``: a smoothed curve is no larger than its norm, and values end at 1.
        Cut to ten bits, so that the count of any curves is exact.
        """
        digits, exponent = math.frexp(math.sqrt(self.norm * min(self.norm, 1.0)))
        return math.ldexp(round(digits * 2**10), exponent - 10)

    def curve(self, points: ArrayLike) -> Array:
        """Give the released mean at points, in the units of the values and inside their range.

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
        values = np.clip(self._space().evaluate(self.coefficients_, at), -1.0, 1.0)
        return np.asarray(
            np.interp(at, self.points_, middle) + np.interp(at, self.points_, half) * values
        )

    def noise_std(self, points: ArrayLike) -> Array:
        """Give the standard deviation of the noise at points: a public number.

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

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the released mean with a band of two standard deviations of the noise.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new picture.

        Returns
        -------
        matplotlib Axes
            The picture.
        """
        check_is_fitted(self)
        return plot_curve(self, ax=ax)


# Smoothing of single curves in the space of a kernel ----------------------------------------------


def smoothing_weights(
    kernel: Kernel, points: Array, values: Array, seen: NDArray[np.bool_], smoothing: float
) -> Array:
    """Weights a_i of ``f_i = sum_j a_ij K(., t_j)``, the smoothing of curve i.

    ``f_i = argmin_f (1/m_i) sum_seen (f(t_j) - y_ij)² + λ ||f||²`` has ``(K + λ m_i I) a_i = y_i``
    on the m_i points at which it was seen, and no weight elsewhere.

    Parameters
    ----------
    kernel : Kernel
    points : ndarray of shape (n_points, 1)
    values : ndarray of shape (n_curves, n_points)
    seen : ndarray of bool, of the same shape
    smoothing : float
        λ.

    Returns
    -------
    ndarray of shape (n_curves, n_points)
    """
    gram = kernel(points, points)
    weights = np.zeros_like(values)
    patterns, members = np.unique(seen, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if not pattern.any():
            continue
        curves = np.flatnonzero(members.ravel() == number)
        block = gram[np.ix_(pattern, pattern)]
        block[np.diag_indices_from(block)] += smoothing * pattern.sum()
        solved = cho_solve(cho_factor(block), values[np.ix_(curves, pattern)].T)
        weights[np.ix_(curves, pattern)] = solved.T
    return weights
