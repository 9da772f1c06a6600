"""Public feature maps: orthonormal systems in which a function becomes a finite vector.

A map φ gives ``φ(x)·φ(y) = K_φ(x, y)``, the kernel of a finite-dimensional space. For the Taylor,
periodic and knot maps that space is a subspace of the space H of a kernel K, and the coordinates of
f are those of its projection: never longer than f is in H. What lies outside is not released. A
function is released by a mechanism for its sensitivity in H: ``features.coordinates(f)`` with noise
answer any number of questions by ``features.evaluate``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import pdtrc
from sklearn.utils import check_random_state

from sfumato.core.constraints import refuse
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.models.covariance import (
    ExponentialKernel,
    GaussianKernel,
    Kernel,
    KernelExpansion,
    MaternKernel,
    kernel_from_dict,
)
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

NUGGET = 2.0**-33  # variance of the independent noise that each point of a dense system adds
MAX_KNOTS = 8192
MAX_TAYLOR = 2**18  # of the leading term R² of the number of features
MAX_TAYLOR_WIDTH = 150.0  # bandwidths from the centre; beyond, products overflow
TRUNCATION = 1e-14  # of the kernel, each axis
BLOCK = 2**22  # feature values computed at a time
MARGIN = 8.1  # bandwidths that keep the copies of the kernel apart: exp(-8.1²/2) < 1e-14
HIGHEST = 8.3  # frequencies beyond have weights below 1e-14 together
MAX_PERIODIC = 2**22
MAX_EXACT = 2**17  # features of a density


# Where a function may be asked --------------------------------------------------------------------


def as_points(X: ArrayLike, n_features: int) -> Array:
    """Return points as rows of doubles; on a line, a plain sequence of numbers will do."""
    try:
        points = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("Points must be rows of numbers.") from None
    if n_features == 1 and points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != n_features:
        raise InvalidInputError(
            f"Points must be rows of {n_features} numbers. Got an array of shape {points.shape}."
        )
    if not np.isfinite(points).all():
        raise InvalidInputError("Points must be finite; an array with NaN or infinity was given.")
    return points


class Domain:
    """A box so wide that doubles can tell ``2**bits`` places along each axis apart.

    Bounds that are a ball stand for the cube around it.
    """

    def __init__(self, bounds: Bounds, n_features: int, bits: int = 20) -> None:
        if not isinstance(bounds, Bounds):
            raise MissingBoundsError(
                "A 'domain' is needed, a public box: domain=Bounds(lower=..., upper=...)."
            )
        bounds.require_features()
        box = bounds.box(n_features)
        if box is None:
            radius = bounds.ball(n_features)[1]
            box = (np.full(n_features, -radius), np.full(n_features, radius))
        self.lower, self.upper = box
        self.width = self.upper - self.lower
        self.n_features = n_features
        if (self.width * 2.0**-bits < 2.0**-44 * np.maximum(-self.lower, self.upper)).any():
            raise InvalidInputError(
                "The domain is too narrow for its distance from zero: its points would not differ "
                "as doubles. Shift the data towards zero."
            )

    def inside(self, X: ArrayLike) -> Array:
        """Return points as rows, after checking that they lie in the box."""
        points = as_points(X, self.n_features)
        if ((points < self.lower) | (points > self.upper)).any():
            raise InvalidInputError(
                "A point lies outside the domain of the released function; clip the points to "
                f"the box from {self.lower.tolist()} to {self.upper.tolist()}."
            )
        return points


# Feature maps -------------------------------------------------------------------------------------


class FeatureMap(ABC):
    """A public map φ from points to vectors with ``||φ(x)||² <= 1``."""

    kind: ClassVar[str] = "features"
    size: int
    n_features: int

    @abstractmethod
    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row; rows are not checked, and no value makes it raise.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values and arrays, which `features_from_dict` reads."""

    def check(self, X: ArrayLike) -> Array:
        """Return the points of a query as rows, or say what is wrong with them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The points.
        """
        return as_points(X, self.n_features)

    def evaluate(self, coordinates: Array, X: ArrayLike) -> Array:
        """Return ``φ(x)·c`` for each row of `X`; c of shape (size,) or (size, k).

        Parameters
        ----------
        coordinates : ndarray of shape (size,) or (size, k)
            Coordinates of one function or of k.
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, k)
            The values.
        """
        blocks = self._blocks(self.check(X))
        return np.concatenate([self.transform(block) @ coordinates for block in blocks])

    def coordinates(self, function: Function) -> Array:
        """Return the coordinates of a function: ``sum_i w_i φ(c_i)`` of a kernel expansion.

        Parameters
        ----------
        function : callable
            The function that is to be released; takes rows.

        Returns
        -------
        ndarray of shape (size,) or (size, k)
            The coordinates.
        """
        if not isinstance(function, KernelExpansion):
            raise InvalidInputError(
                f"{type(self).__name__} takes a function as a KernelExpansion. Got "
                f"{type(function).__name__}; any callable works with KnotFeatures."
            )
        parts = zip(self._blocks(function.centres), self._blocks(function.weights), strict=True)
        return np.asarray(sum(self.transform(rows).T @ w for rows, w in parts))

    def _blocks(self, rows: Array) -> list[Array]:
        step = max(1, BLOCK // self.size)
        return [rows[i : i + step] for i in range(0, max(1, len(rows)), step)]


class TaylorFeatures(FeatureMap):
    """``φ_j(u) = exp(-u²/2) u^j / sqrt(j!)`` of the Gaussian kernel, tensor product over axes.

    Exact up to a truncation below 1e-13 of the kernel on the domain; no matrix is factored.

    Parameters
    ----------
    kernel : GaussianKernel
        Isotropic, one bandwidth per axis, or full H (then in the axes of its Cholesky factor).
    domain : Bounds
        The box in which the function may be asked.
    n_features : int
        Number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds
    >>> from sfumato.models.covariance import GaussianKernel
    >>> features = TaylorFeatures(GaussianKernel(0.1), Bounds(lower=0.0, upper=1.0), 1)
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> error = features.transform(x) @ features.transform(x).T - GaussianKernel(0.1)(x, x)
    >>> features.size, bool(np.abs(error).max() < 1e-13)
    (73, True)
    """

    kind = "taylor"

    def __init__(self, kernel: Kernel, domain: Bounds, n_features: int) -> None:
        if not isinstance(kernel, GaussianKernel):
            raise InvalidInputError(f"{type(self).__name__} are made for a GaussianKernel.")
        self.kernel = kernel
        self.domain = Domain(domain, n_features, bits=0)
        self.n_features = n_features
        # Middle and half widths of the box where lengths are measured in bandwidths.
        self._centre = kernel.whiten(np.atleast_2d(self.domain.lower + self.domain.width / 2))
        self._radii = np.abs(kernel.whiten(np.diag(self.domain.width / 2))).sum(axis=0)
        self.sizes = self._sizes()
        self.size = math.prod(self.sizes)

    def _sizes(self) -> tuple[int, ...]:
        """Smallest J of each axis with ``sum_(j >= J) exp(-R²) R^(2j) / j! <= TRUNCATION``."""
        if self._radii.max() > MAX_TAYLOR_WIDTH or np.prod(self._radii**2 + 1) > MAX_TAYLOR:
            raise _too_wide(MAX_TAYLOR)
        sizes = []
        for radius in self._radii:
            size = 1
            while pdtrc(size - 1, radius**2) > TRUNCATION:  # a Poisson tail
                size += max(1, size // 64)
            sizes.append(size)
        return tuple(sizes)

    def _axes(self, X: Array) -> list[Array]:
        """Return the features of each axis, (n, size of the axis)."""
        # Beyond MAX_TAYLOR_WIDTH all features are zero in doubles, and products would overflow.
        whitened = self.kernel.whiten(X) - self._centre
        whitened = np.clip(whitened, -MAX_TAYLOR_WIDTH, MAX_TAYLOR_WIDTH)
        return [_taylor(u, size) for u, size in zip(whitened.T, self.sizes, strict=True)]

    def check(self, X: ArrayLike) -> Array:
        """Return the points of a query as rows of the domain, or say what is wrong with them."""
        return self.domain.inside(X)

    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row."""
        return _row_products(*self._split(X))

    def evaluate(self, coordinates: Array, X: ArrayLike) -> Array:
        """Return ``φ(x)·c`` for each row of `X`; c of shape (size,) or (size, k)."""
        points = self.check(X)
        table = coordinates.reshape(self.sizes[0], -1)
        parts = []
        for block in self._blocks(points):
            first, rest = self._split(block)
            partial = (first @ table).reshape(len(block), rest.shape[1], -1)
            parts.append(np.einsum("nm,nmk->nk", rest, partial))
        return np.concatenate(parts).reshape(len(points), *coordinates.shape[1:])

    def evaluate_grid(self, coordinates: Array, axes: Sequence[Array]) -> Array:
        """Return the values of one function on the product of `axes`, one axis at a time.

        Parameters
        ----------
        coordinates : ndarray of shape (size,)
            Coordinates of the function.
        axes : sequence of ndarray
            Places along each axis.

        Returns
        -------
        ndarray
            The values, one axis of the array an axis of the grid.
        """
        if self.kernel.is_full:
            points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
            flat = self.evaluate(coordinates, points.reshape(-1, self.n_features))
            return flat.reshape([len(axis) for axis in axes])
        values = coordinates.reshape(self.sizes)
        for number, axis in enumerate(axes):
            points = np.tile(self.domain.lower, (len(axis), 1))
            points[:, number] = axis
            # The first axis is used up and the new one comes last: after d turns all are in order.
            values = np.tensordot(values, self._axes(points)[number], axes=(0, 1))
        return values

    def coordinates(self, function: Function) -> Array:
        """Return ``sum_i w_i φ(c_i)``, one matrix product for each function."""
        if not isinstance(function, KernelExpansion):
            return super().coordinates(function)
        if function.kernel != self.kernel:  # lengths in one space say nothing of another
            raise InvalidInputError(
                "The function is an expansion of another kernel than that of the features."
            )
        shape = function.weights.shape[1:]
        weights = function.weights.reshape(len(function.centres), math.prod(shape))
        total = np.zeros((weights.shape[1], self.sizes[0], self.size // self.sizes[0]))
        blocks = zip(self._blocks(function.centres), self._blocks(weights), strict=True)
        for centres, block_weights in blocks:
            first, rest = self._split(centres)
            for table, w in zip(total, block_weights.T, strict=True):
                table += (first * w[:, None]).T @ rest
        return total.reshape(len(total), -1).T.reshape((self.size, *shape))

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values and arrays."""
        kernel, domain = self.kernel.to_dict(), self.domain
        return {"kind": self.kind, "kernel": kernel, "lower": domain.lower, "upper": domain.upper}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TaylorFeatures:
        """Rebuild the map from `to_dict`."""
        domain = Bounds(lower=record["lower"], upper=record["upper"])
        return cls(kernel_from_dict(record["kernel"]), domain, len(np.atleast_1d(record["lower"])))

    def _split(self, X: Array) -> tuple[Array, Array]:
        first, *others = self._axes(X)
        rest = np.ones((len(X), 1))
        for each in others:
            rest = _row_products(rest, each)
        return first, rest


class PeriodicFeatures(TaylorFeatures):
    """``sqrt(2 w_k) cos(2 π k u / P)`` and ``sin``, tensor product over axes.

    On a line, ``sum_j k(x - y + j P)`` with ``k(u) = exp(-u²/2)`` differs from k by less than 1e-14
    for points at most ``P - 8.1`` apart, and is the series ``sum_k w_k cos(2 π k (x - y) / P)``
    with ``w_k ∝ exp(-(2 π k / P)² / 2)``. Its terms grow in number with the width of the domain,
    where those of the Taylor series grow with its square.

    Parameters
    ----------
    kernel : GaussianKernel
        Isotropic, one bandwidth per axis, or full H.
    domain : Bounds
        The box in which the function may be asked.
    n_features : int
        Number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds
    >>> from sfumato.models.covariance import GaussianKernel
    >>> features = PeriodicFeatures(GaussianKernel(0.02), Bounds(lower=0.0, upper=1.0), 1)
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> error = features.transform(x) @ features.transform(x).T - GaussianKernel(0.02)(x, x)
    >>> features.size, bool(np.abs(error).max() < 1e-13)
    (155, True)
    """

    kind = "periodic"

    def _sizes(self) -> tuple[int, ...]:
        self._periods = 2 * self._radii + MARGIN
        highest = np.ceil(HIGHEST * self._periods / (2 * math.pi))
        if np.sum(np.log(2 * highest + 1)) > math.log(MAX_PERIODIC):
            raise _too_wide(MAX_PERIODIC)
        return tuple(int(2 * k + 1) for k in highest)

    def _axes(self, X: Array) -> list[Array]:
        whitened = np.clip(self.kernel.whiten(X) - self._centre, -self._radii, self._radii)
        found = []
        for u, period, size in zip(whitened.T, self._periods, self.sizes, strict=True):
            step = 2 * math.pi / period
            weights = np.exp(-((step * np.arange(size // 2 + 1)) ** 2) / 2)
            weights[1:] *= 2
            lengths = np.sqrt(weights / weights.sum())  # squares add up to 1 at every point
            angles = step * np.arange(1, size // 2 + 1) * u[:, None]
            waves = [np.cos(angles) * lengths[1:], np.sin(angles) * lengths[1:]]
            found.append(np.concatenate([np.full((len(u), 1), lengths[0]), *waves], axis=1))
        return found


class KnotFeatures(FeatureMap):
    """``φ(x) = L⁻¹ K(knots, x)`` with ``L Lᵀ = K(knots, knots) + τ I``: any kernel, any dimension.

    The functions spanned by the kernel at the knots. τ = 2⁻³³ keeps the factor stable and only
    shortens φ, so that every bound on the sensitivity in H holds here too.

    Parameters
    ----------
    kernel : Kernel
        K.
    knots : ndarray of shape (m, d)
        Public points: a grid, or points drawn from the bounds, never rows of the data.
    """

    kind = "knots"

    def __init__(self, kernel: Kernel, knots: ArrayLike) -> None:
        given = np.asarray(knots, dtype=np.float64)
        self.knots = as_points(given, 1 if given.ndim < 2 else given.shape[1])
        self.kernel = kernel
        self.size, self.n_features = self.knots.shape
        if self.size > MAX_KNOTS:
            raise InvalidInputError(
                f"{self.size} knots are too many for a dense factor; at most {MAX_KNOTS} are "
                "offered."
            )
        gram = kernel(self.knots, self.knots)
        gram[np.diag_indices_from(gram)] += NUGGET
        self._factor = np.asarray(cholesky(gram, lower=True, overwrite_a=True))

    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row."""
        at_knots = self.kernel(self.knots, X)
        return np.asarray(solve_triangular(self._factor, at_knots, lower=True).T)

    def evaluate(self, coordinates: Array, X: ArrayLike) -> Array:
        """Return ``φ(x)·c`` for each row of `X`; c of shape (size,) or (size, k)."""
        points = self.check(X)
        weights = solve_triangular(self._factor, coordinates, lower=True, trans="T")
        return KernelExpansion(self.kernel, self.knots, weights)(points)

    def coordinates(self, function: Function) -> Array:
        """Return ``L⁻¹ f(knots)``, for any callable that takes rows."""
        values = np.asarray(function(self.knots), dtype=np.float64)
        return np.asarray(solve_triangular(self._factor, values, lower=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values and arrays."""
        return {"kind": self.kind, "kernel": self.kernel.to_dict(), "knots": self.knots}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> KnotFeatures:
        """Rebuild the map from `to_dict`."""
        return cls(kernel_from_dict(record["kernel"]), record["knots"])


class FourierFeatures(FeatureMap):
    """``φ(x) = (cos(ω_j·x), sin(ω_j·x))_j / sqrt(J)`` with public frequencies ω; ``||φ(x)|| = 1``.

    The kernel ``φ(x)·φ(y)`` is near K, at a distance of about ``1/sqrt(J)``, and is not K: fit and
    release in the space of the map itself, where every bound with ``sup K = 1`` holds as it
    stands. ``φ(x)·φ(y)`` may be negative: a mean of φ moves by up to ``2 / n``.

    Parameters
    ----------
    kernel : Kernel
        K, whose spectral law the frequencies are drawn from.
    size : int
        Number of features, even.
    n_features : int
        Number of axes.
    random_state : int, RandomState or None, default=0
        Rules the public draw of the frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.models.covariance import GaussianKernel
    >>> features = FourierFeatures(GaussianKernel(1.0), 200, n_features=3)
    >>> phi = features.transform(np.ones((1, 3)))
    >>> phi.shape, float((phi @ phi.T).round(12)[0, 0])
    ((1, 200), 1.0)
    """

    kind = "fourier"

    def __init__(
        self, kernel: Kernel, size: int = 1024, *, n_features: int, random_state: Any = 0
    ) -> None:
        if size < 2 or size % 2:
            raise InvalidInputError(f"'size' must be even and at least 2. Got {size} instead.")
        rng, shape = check_random_state(random_state), (size // 2, n_features)
        if isinstance(kernel, ExponentialKernel):
            self._set(rng.standard_cauchy(shape) * kernel.rates(n_features))
            return
        normal = rng.standard_normal(shape)
        if isinstance(kernel, GaussianKernel):
            self._set(normal @ kernel.whiten(np.eye(n_features)).T)
        elif isinstance(kernel, MaternKernel):  # Student's law with 2 nu degrees of freedom
            tail = np.sqrt(rng.chisquare(2 * kernel.nu, (len(normal), 1)) / (2 * kernel.nu))
            self._set(normal / tail / np.asarray(kernel.length))
        else:
            raise InvalidInputError(f"The spectral law of a {type(kernel).__name__} is not known.")

    def _set(self, frequencies: Array) -> None:
        self.frequencies = np.asarray(frequencies, dtype=np.float64)
        self.size, self.n_features = 2 * len(self.frequencies), self.frequencies.shape[1]

    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row."""
        angles = X @ self.frequencies.T
        both = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return np.asarray(both / np.sqrt(len(self.frequencies)))

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values and arrays."""
        return {"kind": self.kind, "frequencies": self.frequencies}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FourierFeatures:
        """Rebuild the map from `to_dict`."""
        features = cls.__new__(cls)
        frequencies = np.asarray(record["frequencies"], dtype=np.float64)
        if frequencies.ndim != 2 or not np.isfinite(frequencies).all():
            raise InvalidInputError("'frequencies' must be finite, one row each.")
        features._set(frequencies)
        return features


_MAPS: dict[str, Any] = {
    kind.kind: kind for kind in (FourierFeatures, KnotFeatures, PeriodicFeatures, TaylorFeatures)
}


def features_from_dict(record: Mapping[str, Any]) -> FeatureMap:
    """Rebuild a feature map from its `to_dict`.

    Parameters
    ----------
    record : mapping
        What `to_dict` gave.

    Returns
    -------
    FeatureMap
        The map.
    """
    kind = record.get("kind")
    if kind not in _MAPS:
        raise InvalidInputError(f"'kind' must be one of {sorted(_MAPS)}. Got {kind!r} instead.")
    features: FeatureMap = _MAPS[kind].from_dict(record)
    return features


def stored_features(value: Any, place: str, sizes: dict[str, int]) -> None:
    """Ask a stored model for a feature map of rows of d numbers, and note its size m."""
    features = features_from_dict(value)
    if features.n_features != sizes["d"] or features.size < 1:
        raise refuse(place, f"features of rows of {sizes['d']} numbers")
    sizes["m"] = features.size


def public_features(
    kernel: GaussianKernel,
    bounds: Bounds,
    n_features: int,
    *,
    fourier: int,
    random_state: Any,
    most: int = MAX_EXACT,
) -> FeatureMap:
    """Return exact features of the kernel if there are at most `most`, else random ones.

    Taylor or periodic features, whichever are fewer; else random Fourier features, whose own
    kernel is then the kernel of the space. Bounds and kernel decide, never a row.
    """
    exact: list[FeatureMap] = []
    for kind in (TaylorFeatures, PeriodicFeatures):
        with suppress(InvalidInputError):
            exact.append(kind(kernel, bounds, n_features))
    fewest = min(exact, key=lambda features: features.size, default=None)
    if fewest is not None and fewest.size <= most:
        return fewest
    return FourierFeatures(kernel, size=fourier, n_features=n_features, random_state=random_state)


def _too_wide(most: int) -> InvalidInputError:
    return InvalidInputError(
        f"The domain is too wide for this bandwidth: more than {most} features would be needed. "
        "Take a larger bandwidth, a smaller domain, or KnotFeatures."
    )


def _taylor(u: Array, size: int) -> Array:
    powers = np.arange(size)
    factors = u[:, None] / np.sqrt(np.maximum(powers, 1.0))
    factors[:, 0] = 1.0
    half_square = u[:, None] ** 2 / 2
    if half_square.max(initial=0.0) < 700:  # exp(-u²/2) is a normal double
        factors[:, :1] = np.exp(-half_square)
        return np.cumprod(factors, axis=1, out=factors)
    # Else each factor carries an equal share of the decay, and each product gets what it lacks.
    factors *= np.exp(-half_square / size)
    np.cumprod(factors, axis=1, out=factors)
    factors *= np.exp(-half_square * (1 - (powers + 1) / size))
    return factors


def _row_products(A: Array, B: Array) -> Array:
    return np.asarray((A[:, :, None] * B[:, None, :]).reshape(len(A), A.shape[1] * B.shape[1]))
