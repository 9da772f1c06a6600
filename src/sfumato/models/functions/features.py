"""Public feature maps: orthonormal systems in which a function becomes a finite vector.

A map φ gives ``φ(x)·φ(y) = K_φ(x, y)``, the kernel of a finite-dimensional space. For the Taylor
and knot maps that space is a subspace of the space H of a kernel K, and the coordinates of f are
those of its projection: never longer than f is in H. What lies outside is not released.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import pdtrc

from sfumato.exceptions import InvalidInputError
from sfumato.models.functions.domain import Domain, as_points
from sfumato.models.kernels import GaussianKernel, Kernel, KernelExpansion, kernel_from_dict
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

NUGGET = 2.0**-33  # variance of the independent noise that each point of a dense system adds
MAX_KNOTS = 8192
MAX_TAYLOR = 2**18  # of the leading term R² of the number of features
MAX_TAYLOR_WIDTH = 150.0  # bandwidths from the centre; beyond, products overflow
TRUNCATION = 1e-14  # of the kernel, each axis
BLOCK = 2**22  # feature values computed at a time


class FeatureMap(ABC):
    """A public map φ from points to vectors with ``||φ(x)||² <= sup``."""

    kind: ClassVar[str] = "features"
    sup: ClassVar[float] = 1.0
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
        """Return the map as plain values and arrays."""

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
        points = self.check(X)
        parts = [self.transform(block) @ coordinates for block in self._blocks(points)]
        return np.concatenate(parts)

    @abstractmethod
    def require_kernel(self, kernel: Kernel, function: Function) -> None:
        """Refuse a function, or a kernel in whose norm its sensitivity is stated, of another space.

        Lengths in one space say nothing of lengths in another.

        Parameters
        ----------
        kernel : Kernel
            The kernel in whose norm the sensitivity is stated.
        function : callable
            The function that is to be released; takes rows.
        """

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
        weights = self._blocks(function.weights)
        parts = zip(self._blocks(function.centres), weights, strict=True)
        return np.asarray(sum(self.transform(rows).T @ w for rows, w in parts))

    def _blocks(self, rows: Array) -> list[Array]:
        step = max(1, BLOCK // self.size)
        return [rows[i : i + step] for i in range(0, max(1, len(rows)), step)]


def as_gaussian(features: str, kernel: Kernel) -> GaussianKernel:
    """Refuse another kernel than the Gaussian one."""
    if not isinstance(kernel, GaussianKernel):
        raise InvalidInputError(f"{features} are made for a GaussianKernel.")
    return kernel


def whitened_box(kernel: GaussianKernel, domain: Domain) -> tuple[Array, Array]:
    """Middle and half widths of the box where lengths are measured in bandwidths."""
    centre = kernel.whiten(np.atleast_2d(domain.lower + domain.width / 2))
    return centre, np.abs(kernel.whiten(np.diag(domain.width / 2))).sum(axis=0)


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
    >>> from sfumato.models.kernels import GaussianKernel
    >>> features = TaylorFeatures(GaussianKernel(0.1), Bounds(lower=0.0, upper=1.0), 1)
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> error = features.transform(x) @ features.transform(x).T - GaussianKernel(0.1)(x, x)
    >>> features.size, bool(np.abs(error).max() < 1e-13)
    (73, True)
    """

    kind = "taylor"

    def __init__(self, kernel: Kernel, domain: Bounds, n_features: int) -> None:
        self.kernel = as_gaussian("TaylorFeatures", kernel)
        self.domain = Domain(domain, n_features, bits=0)
        self.n_features = n_features
        self._centre, radii = whitened_box(self.kernel, self.domain)
        if radii.max() > MAX_TAYLOR_WIDTH or np.prod(radii**2 + 1) > MAX_TAYLOR:
            raise InvalidInputError(
                "The domain is too wide for this bandwidth: more than "
                f"{MAX_TAYLOR} features would be needed. Take a larger bandwidth, a smaller "
                "domain, or KnotFeatures."
            )
        self.sizes = tuple(_taylor_size(radius) for radius in radii)
        self.size = math.prod(self.sizes)

    def check(self, X: ArrayLike) -> Array:
        """Return the points of a query as rows of the domain, or say what is wrong with them."""
        return self.domain.inside(X)

    def require_kernel(self, kernel: Kernel, function: Function) -> None:
        """Refuse another kernel than that of the features, or a function of another kernel."""
        _require_same(self.kernel, kernel)
        if isinstance(function, KernelExpansion) and function.kernel != kernel:
            raise InvalidInputError(
                "The function is an expansion of another kernel than 'kernel', and these features "
                "would take it for one of 'kernel'. Use KnotFeatures."
            )

    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row."""
        first, rest = self._split(X)
        return _row_products(first, rest)

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
        """Return the values on the product of `axes`, one axis at a time.

        Parameters
        ----------
        coordinates : ndarray of shape (size,) or (size, k)
            Coordinates of one function or of k.
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
        self.check([[axis.min() for axis in axes], [axis.max() for axis in axes]])
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
        weights = function.weights.reshape(
            len(function.centres), math.prod(function.weights.shape[1:])
        )
        total = np.zeros((weights.shape[1], self.sizes[0], self.size // self.sizes[0]))
        blocks = zip(self._blocks(function.centres), self._blocks(weights), strict=True)
        for centres, block_weights in blocks:
            first, rest = self._split(centres)
            for table, w in zip(total, block_weights.T, strict=True):
                table += (first * w[:, None]).T @ rest
        shape = (self.size, *function.weights.shape[1:])
        return total.reshape(len(total), -1).T.reshape(shape)

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values and arrays."""
        return {
            "kind": self.kind,
            "kernel": self.kernel.to_dict(),
            "lower": self.domain.lower,
            "upper": self.domain.upper,
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> TaylorFeatures:
        """Rebuild the map from `to_dict`.

        Parameters
        ----------
        record : mapping
            What `to_dict` gave.
        """
        domain = Bounds(lower=record["lower"], upper=record["upper"])
        return cls(kernel_from_dict(record["kernel"]), domain, len(np.atleast_1d(record["lower"])))

    def _axes(self, X: Array) -> list[Array]:
        # Beyond MAX_TAYLOR_WIDTH all features are zero in doubles, and products would overflow.
        whitened = self.kernel.whiten(X) - self._centre
        whitened = np.clip(whitened, -MAX_TAYLOR_WIDTH, MAX_TAYLOR_WIDTH)
        return [_taylor(u, size) for u, size in zip(whitened.T, self.sizes, strict=True)]

    def _split(self, X: Array) -> tuple[Array, Array]:
        first, *others = self._axes(X)
        rest = np.ones((len(X), 1))
        for each in others:
            rest = _row_products(rest, each)
        return first, rest


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
        self._factor = nugget_cholesky(kernel, self.knots)

    def require_kernel(self, kernel: Kernel, function: Function) -> None:  # noqa: ARG002
        """Refuse another kernel than that of the features."""
        _require_same(self.kernel, kernel)

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
    def from_dict(cls, record: dict[str, Any]) -> KnotFeatures:
        """Rebuild the map from `to_dict`.

        Parameters
        ----------
        record : mapping
            What `to_dict` gave.
        """
        return cls(kernel_from_dict(record["kernel"]), record["knots"])


def _require_same(own: Kernel, kernel: Kernel) -> None:
    if own != kernel:
        raise InvalidInputError(
            "'features' belong to another kernel than 'kernel', in whose norm the sensitivity is "
            "stated. Make them from the same kernel."
        )


def nugget_cholesky(kernel: Kernel, points: Array) -> Array:
    """Return lower L with ``L Lᵀ = K(points, points) + τ I``."""
    if len(points) > MAX_KNOTS:
        raise InvalidInputError(
            f"{len(points)} points are too many for a dense factor, at most {MAX_KNOTS} are "
            "offered. Release the function as features, or ask on a product grid."
        )
    gram = kernel(points, points)
    gram[np.diag_indices_from(gram)] += NUGGET
    return np.asarray(cholesky(gram, lower=True, overwrite_a=True))


def raw_values(function: Function, rows: Array) -> Array:
    """Evaluate a raw function at rows, one finite number for each."""
    values = np.asarray(function(rows), dtype=np.float64)
    if values.shape != (len(rows),):
        raise InvalidInputError(
            f"The function must give one number per row. Got shape {values.shape} for "
            f"{len(rows)} rows."
        )
    return values


def _taylor_size(radius: float) -> int:
    """Smallest J with ``sum_(j >= J) exp(-R²) R^(2j) / j! <= TRUNCATION``, a Poisson tail."""
    size, mean = 1, radius**2
    while pdtrc(size - 1, mean) > TRUNCATION:
        size += max(1, size // 64)
    return size


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
