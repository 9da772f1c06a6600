"""Kernels, and public feature maps in which a function of their space becomes a finite vector.

A map φ gives ``φ(x)·φ(y) = K_φ(x, y)``, the kernel of a finite-dimensional space. For the Taylor,
periodic and knot maps that space is a subspace of the space H of a kernel K, and the coordinates of
f are those of its projection: never longer than f is in H. What lies outside is not released. A
function is released by a mechanism for its sensitivity in H: its coordinates with noise answer any
number of questions by ``features.evaluate``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import pdtrc
from sklearn.utils import check_random_state

from sfumato.core.constraints import refuse
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

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
TRIG_BLOCK = 2**16  # numbers whose cosines are taken together, in the cache
# sin(πt)/t and cos(πt)/(1/4 - t²) for |t| <= 1/2 by powers of t², to 1e-13.
SINE = (
    3.141592653589635,
    -5.167712779987959,
    2.550164035906745,
    -0.5992644339357286,
    0.08214479467064854,
    -0.007364005472115722,
    0.0004474920849077101,
)
COSINE = (
    3.999999999999969,
    -3.739208802166597,
    1.2780132961761679,
    -0.22899786896891997,
    0.02533075764443992,
    -0.0019024265245836242,
    9.989933970275219e-05,
)


# Kernels with K(x, x) = 1 -----------------------------------------------------------------------


@dataclass(frozen=True)
class GaussianKernel:
    """``K(x, y) = exp(-½ (x - y)ᵀ H⁻¹ (x - y))``."""

    bandwidth: Any  # kept as a float, a tuple of floats or a tuple of rows

    def __post_init__(self) -> None:
        given = np.asarray(self.bandwidth, dtype=float)
        if given.ndim == 2:
            is_square = given.shape[0] == given.shape[1] and np.isfinite(given).all()
            if not (
                is_square and np.allclose(given, given.T) and np.linalg.eigvalsh(given).min() > 0
            ):
                raise InvalidInputError("'bandwidth' given as a matrix must be positive definite.")
            kept: Any = tuple(tuple(row) for row in ((given + given.T) / 2).tolist())
        else:
            if given.ndim > 1 or given.size == 0 or not (np.isfinite(given) & (given > 0)).all():
                raise InvalidInputError(
                    "'bandwidth' must be one finite positive number, or one for each axis."
                )
            kept = float(given) if given.ndim == 0 else tuple(given.tolist())
        object.__setattr__(self, "bandwidth", kept)

    @property
    def is_full(self) -> bool:
        """Whether H is a full matrix, so that axes are mixed."""
        return isinstance(self.bandwidth, tuple) and isinstance(self.bandwidth[0], tuple)

    def whiten(self, X: Array) -> Array:
        """Return rows u with ``K = exp(-½ ||u - u'||²)``."""
        scales = np.asarray(self.bandwidth, dtype=float)
        if scales.ndim and scales.shape[0] != X.shape[1]:
            raise InvalidInputError(
                f"The kernel is made for {scales.shape[0]} axes, the points have {X.shape[1]}."
            )
        if not self.is_full:
            return np.asarray(X / scales)
        return np.asarray(solve_triangular(np.linalg.cholesky(scales), X.T, lower=True).T)

    def normaliser(self, n_features: int) -> float:
        """Return ``(2π)^(d/2) |H|^(1/2)``: the kernel divided by it is a density."""
        widths = np.asarray(self.bandwidth)
        if self.is_full:
            root = math.sqrt(np.linalg.det(widths))
        else:
            root = float(np.prod(np.zeros(n_features) + widths))
        return float((2 * math.pi) ** (n_features / 2) * root)

    def __call__(self, A: Array, B: Array) -> Array:
        """Return the matrix ``K(a_i, b_j)`` for rows of `A` and `B`."""
        squares = cdist(self.whiten(A), self.whiten(B), "sqeuclidean")
        return np.asarray(np.exp(squares / -2))


Kernel = Callable[[Array, Array], Array]  # rows a_i and b_j -> matrix K(a_i, b_j)


# Where a function may be asked --------------------------------------------------------------------


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


# Feature maps -------------------------------------------------------------------------------------


class FeatureMap(ABC):
    """A public map φ from points to vectors with ``||φ(x)||² <= 1``."""

    kind: ClassVar[str] = "features"
    size: int
    n_features: int

    @abstractmethod
    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row; rows are not checked, and no value makes it raise."""

    def evaluate(self, coordinates: Array, X: Array) -> Array:
        """Return ``φ(x)·c`` for each row of `X`; c of shape (size,) or (size, k)."""
        blocks = self._blocks(X)
        return np.concatenate([self.transform(block) @ coordinates for block in blocks])

    def _blocks(self, rows: Array) -> list[Array]:
        step = max(1, BLOCK // self.size)
        return [rows[i : i + step] for i in range(0, max(1, len(rows)), step)]


class TaylorFeatures(FeatureMap):
    """``φ_j(u) = exp(-u²/2) u^j / sqrt(j!)`` of the Gaussian kernel, tensor product over axes.

    Exact up to a truncation below 1e-13 of the kernel on the domain; no matrix is factored.
    """

    kind = "taylor"

    def __init__(self, kernel: GaussianKernel, domain: Bounds, n_features: int) -> None:
        if not isinstance(kernel, GaussianKernel):
            raise InvalidInputError(f"{type(self).__name__} need a GaussianKernel.")
        self.kernel, self.n_features = kernel, n_features
        self.domain = Domain(domain, n_features, bits=0)
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
        found = []
        for u, size in zip(whitened.T, self.sizes, strict=True):
            powers, half_square = np.arange(size), u[:, None] ** 2 / 2
            factors = u[:, None] / np.sqrt(np.maximum(powers, 1.0))
            factors[:, 0] = 1.0
            if half_square.max(initial=0.0) < 700:  # exp(-u²/2) is a normal double
                factors[:, :1] = np.exp(-half_square)
                np.cumprod(factors, axis=1, out=factors)
            else:  # each factor carries a share of the decay, and each product gets what it lacks
                factors *= np.exp(-half_square / size)
                np.cumprod(factors, axis=1, out=factors)
                factors *= np.exp(-half_square * (1 - (powers + 1) / size))
            found.append(factors)
        return found

    def _split(self, X: Array) -> tuple[Array, Array]:
        """Return the features of the first axis, and products of those of the others."""
        first, *others = self._axes(X)
        rest = np.ones((len(X), 1))
        for each in others:
            width = rest.shape[1] * each.shape[1]  # not -1: there may be no rows
            rest = (rest[:, :, None] * each[:, None, :]).reshape(len(X), width)
        return first, rest

    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row."""
        first, rest = self._split(X)
        return np.asarray((first[:, :, None] * rest[:, None, :]).reshape(len(X), self.size))

    def evaluate(self, coordinates: Array, X: Array) -> Array:
        """Return ``φ(x)·c`` for each row of `X`; c of shape (size,) or (size, k)."""
        table = coordinates.reshape(self.sizes[0], -1)
        parts = []
        for block in self._blocks(X):
            first, rest = self._split(block)
            partial = (first @ table).reshape(len(block), rest.shape[1], -1)
            parts.append(np.einsum("nm,nmk->nk", rest, partial))
        return np.concatenate(parts).reshape(len(X), *coordinates.shape[1:])

    def add_up(self, rows: Array) -> Array:
        """Return ``sum_i φ(x_i)``, one matrix product for each block of rows."""
        total = np.zeros((self.sizes[0], self.size // self.sizes[0]))
        for block in self._blocks(rows):
            first, rest = self._split(block)
            total += first.T @ rest
        return total.ravel()

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values and arrays, which `features_from_dict` reads."""
        kernel = {"kind": "gaussian", "bandwidth": self.kernel.bandwidth}
        lower, upper = self.domain.lower, self.domain.upper
        return {"kind": self.kind, "kernel": kernel, "lower": lower, "upper": upper}


class PeriodicFeatures(TaylorFeatures):
    """``sqrt(2 w_k) cos(2 π k u / P)`` and ``sin``, tensor product over axes.

    On a line, ``sum_j k(x - y + j P)`` with ``k(u) = exp(-u²/2)`` differs from k by less than 1e-14
    for points at most ``P - 8.1`` apart, and is the series ``sum_k w_k cos(2 π k (x - y) / P)``
    with ``w_k ∝ exp(-(2 π k / P)² / 2)``. Its terms grow in number with the width of the domain,
    where those of the Taylor series grow with its square.
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
    """

    def __init__(self, kernel: Kernel, knots: ArrayLike) -> None:
        given = np.asarray(knots, dtype=np.float64)
        self.knots = given[:, None] if given.ndim == 1 else given
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

    def evaluate(self, coordinates: Array, X: Array) -> Array:
        """Return ``φ(x)·c`` for each row of `X`; c of shape (size,) or (size, k)."""
        weights = solve_triangular(self._factor, coordinates, lower=True, trans="T")
        blocks = self._blocks(X)
        return np.concatenate([self.kernel(block, self.knots) @ weights for block in blocks])


class FourierFeatures(FeatureMap):
    """``φ(x) = (cos(ω_j·x), sin(ω_j·x))_j / sqrt(J)`` with public frequencies ω; ``||φ(x)|| = 1``.

    The kernel ``φ(x)·φ(y)`` of frequencies drawn for K is near K, at a distance of about
    ``1/sqrt(J)``, and is not K: fit and release in the space of the map itself, where every bound
    with ``sup K = 1`` holds as it stands. ``φ(x)·φ(y)`` may be negative: a mean of φ moves by up
    to ``2 / n``.
    """

    kind = "fourier"

    def __init__(self, frequencies: ArrayLike) -> None:
        self.frequencies = np.asarray(frequencies, dtype=np.float64)
        if self.frequencies.ndim != 2 or not np.isfinite(self.frequencies).all():
            raise InvalidInputError("'frequencies' must be finite, one row each.")
        self.size, self.n_features = 2 * len(self.frequencies), self.frequencies.shape[1]

    @classmethod
    def draw(
        cls, kernel: GaussianKernel, size: int, *, n_features: int, random_state: Any = 0
    ) -> FourierFeatures:
        """Draw the frequencies of `size` features, an even number, from the spectral law of K."""
        if size < 2 or size % 2:
            raise InvalidInputError(f"'size' must be even and at least 2. Got {size} instead.")
        normal = check_random_state(random_state).standard_normal((size // 2, n_features))
        return cls(normal @ kernel.whiten(np.eye(n_features)).T)

    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row."""
        found = np.empty((len(X), self.size))
        cosines, sines = np.hsplit(found, 2)
        # A turn is cut to half a turn on both sides, cos and sin come from those of half the angle:
        # three times as quick as NumPy's, and as smooth where the turn is cut.
        turns, height = self.frequencies.T / (2 * np.pi), math.sqrt(math.sqrt(2 / self.size))
        step = max(1, TRIG_BLOCK // self.size)
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            t = X[part] @ turns
            t -= np.rint(t)
            squares = t * t
            halves: list[Array] = []
            for coefficients, factor in ((COSINE, 0.25 - squares), (SINE, t)):
                half = np.full_like(t, coefficients[-1])
                for coefficient in coefficients[-2::-1]:
                    half *= squares
                    half += coefficient
                half *= factor
                half *= height
                halves.append(half)
            np.multiply(halves[0], halves[1], out=sines[part])
            sines[part] *= 2
            np.subtract(halves[0] ** 2, halves[1] ** 2, out=cosines[part])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values and arrays, which `features_from_dict` reads."""
        return {"kind": self.kind, "frequencies": self.frequencies}


PublicFeatures = TaylorFeatures | FourierFeatures


def features_from_dict(record: Mapping[str, Any]) -> PublicFeatures:
    """Rebuild a feature map from its `to_dict`."""
    kind = record.get("kind")
    if kind == "fourier":
        return FourierFeatures(record["frequencies"])
    if kind not in ("taylor", "periodic") or record["kernel"].get("kind") != "gaussian":
        raise InvalidInputError("'kind' must be 'fourier', 'periodic' or 'taylor'.")
    exact = TaylorFeatures if kind == "taylor" else PeriodicFeatures
    domain = Bounds(lower=record["lower"], upper=record["upper"])
    kernel = GaussianKernel(record["kernel"]["bandwidth"])
    return exact(kernel, domain, len(np.atleast_1d(record["lower"])))


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
) -> PublicFeatures:
    """Return exact features of the kernel if there are at most `most`, else random ones.

    Taylor or periodic features, whichever are fewer; else random Fourier features, whose own
    kernel is then the kernel of the space. Bounds and kernel decide, never a row.
    """
    exact: list[TaylorFeatures] = []
    for kind in (TaylorFeatures, PeriodicFeatures):
        with suppress(InvalidInputError):
            exact.append(kind(kernel, bounds, n_features))
    fewest = min(exact, key=lambda features: features.size, default=None)
    if fewest is not None and fewest.size <= most:
        return fewest
    return FourierFeatures.draw(kernel, fourier, n_features=n_features, random_state=random_state)


def _too_wide(most: int) -> InvalidInputError:
    return InvalidInputError(
        f"The domain is too wide for this bandwidth: more than {most} features would be needed. "
        "Use a larger bandwidth, a smaller domain, or KnotFeatures."
    )
