"""Random Fourier features: a public random map whose own kernel replaces the exact one."""

from __future__ import annotations

import itertools
import math
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.exceptions import InvalidInputError
from sfumato.models.functions.features import FeatureMap, Function
from sfumato.models.kernels import ExponentialKernel, GaussianKernel, Kernel, MaternKernel

Array = NDArray[np.float64]

MAX_COSINES = 2e7  # of a search for the least value of a kernel: about a second
MAX_CELLS = 2**16  # of the search; fewer cells only loosen its bound
MAX_AXES = 5  # beyond, a search of that size proves nothing
ORDER = 4  # of the Taylor polynomials in it
NEAR_ENOUGH = 0.01  # to a value that the kernel does take
SLACK = 1e-9  # for rounding errors of the bounds


class FourierFeatures(FeatureMap):
    """``φ(x) = (cos(ω_j·x), sin(ω_j·x))_j / sqrt(J)`` with public frequencies ω; ``||φ(x)|| = 1``.

    The kernel ``φ(x)·φ(y)`` is near K, at a distance of about ``1/sqrt(J)``, and is not K: fit and
    release in the space of the map itself, where every bound with ``sup K = 1`` holds as it
    stands. ``φ(x)·φ(y)`` may be negative: a mean of φ moves by up to ``sqrt(2 - 2 k_min) / n``, and
    `min_kernel` gives a bound on k_min for a box.

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
    >>> from sfumato.models.kernels import GaussianKernel
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
        rng = check_random_state(random_state)
        self._set(_frequencies(kernel, size // 2, n_features, rng))

    def _set(self, frequencies: Array) -> None:
        self.frequencies = frequencies
        self.size, self.n_features = 2 * len(frequencies), frequencies.shape[1]

    def require_kernel(self, kernel: Kernel, function: Function) -> NoReturn:  # noqa: ARG002
        """Refuse every kernel: these features have one of their own."""
        raise InvalidInputError(
            "FourierFeatures have a kernel of their own, and a sensitivity stated for 'kernel' "
            "is not valid in its space. Use Taylor or knot features, or release a vector "
            "in the space of the map with GaussianMechanism and the sensitivity it has "
            "there."
        )

    def transform(self, X: Array) -> Array:
        """Return φ(x) for each row."""
        angles = X @ self.frequencies.T
        both = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return np.asarray(both / np.sqrt(len(self.frequencies)))

    def min_kernel(self, width: Array) -> float:
        """Return a proved lower bound of ``φ(x)·φ(y)`` for points of a box with these sides.

        The difference of two points lies in a box of twice the sides, and the kernel is even. That
        box is cut into cells, and those with the least bounds are cut again while the search lasts.
        A box too large for that has the bound -1.

        Parameters
        ----------
        width : ndarray of shape (n_features,)
            Sides of the box.

        Returns
        -------
        float
            The bound, at least -1.
        """
        left = min(MAX_CELLS, int(MAX_COSINES / len(self.frequencies)))
        if self.n_features > MAX_AXES or left < 4**self.n_features:
            return -1.0
        first = left // (2 if self.n_features > 2 else 8)
        centres, half = _cells(width, self.frequencies, first)
        radii = np.broadcast_to(half, centres.shape)
        bounds, values = self._bounds(centres, radii)
        met = values.min()  # the least value is between the least bound and this
        corners = np.array(list(itertools.product((-0.5, 0.5), repeat=self.n_features)))
        left -= len(bounds)
        while left >= len(corners) and bounds.min() < met - NEAR_ENOUGH:
            order = np.argsort(bounds)
            n_split = max(1, min(left // len(corners), len(bounds) // 8))
            worst, rest = order[:n_split], order[n_split:]
            halved = np.repeat(radii[worst] / 2, len(corners), axis=0)
            children = (centres[worst, None] + radii[worst, None] * corners).reshape(halved.shape)
            found, values = self._bounds(children, halved)
            centres = np.concatenate([centres[rest], children])
            radii = np.concatenate([radii[rest], halved])
            bounds = np.concatenate([bounds[rest], found])
            met, left = min(met, values.min()), left - len(found)
        return max(-1.0, float(bounds.min()) - SLACK)

    def _bounds(self, centres: Array, radii: Array) -> tuple[Array, Array]:
        """Lower bounds of the kernel on cells, by Taylor polynomials; values in their middles."""
        polynomial = [_monomials(self.frequencies, order) for order in range(1, ORDER + 1)]
        bounds, values = np.empty(len(centres)), np.empty(len(centres))
        for start in range(0, len(centres), 1024):
            part = slice(start, start + 1024)
            angles = centres[part] @ self.frequencies.T
            waves = np.sin(angles), np.cos(angles)
            values[part] = waves[1].mean(axis=1)
            bounds[part] = values[part]
            for order, (axes, of_frequencies) in enumerate(polynomial, start=1):
                slopes = np.abs(waves[(order + 1) % 2] @ of_frequencies)
                reach = np.prod(radii[part][:, axes], axis=2)
                bounds[part] -= np.einsum("nm,nm->n", slopes, reach) / math.factorial(order)
        return bounds - self._remainders(radii), values

    def _remainders(self, radii: Array) -> Array:
        """``sup (1/J) sum_j |ω_j·d|^p / p!`` over cells: convex in d, so attained at a corner."""
        sizes, place = np.unique(radii, axis=0, return_inverse=True)
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=self.n_features)))
        power = ORDER + 1
        largest = [
            float((np.abs((signs * size) @ self.frequencies.T) ** power).mean(axis=1).max())
            for size in sizes
        ]
        return np.asarray(largest)[place.reshape(-1)] / math.factorial(power)

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values and arrays."""
        return {"kind": self.kind, "frequencies": self.frequencies}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> FourierFeatures:
        """Rebuild the map from `to_dict`.

        Parameters
        ----------
        record : mapping
            What `to_dict` gave.
        """
        features = cls.__new__(cls)
        frequencies = np.asarray(record["frequencies"], dtype=np.float64)
        if frequencies.ndim != 2 or not np.isfinite(frequencies).all():
            raise InvalidInputError("'frequencies' must be finite, one row each.")
        features._set(frequencies)
        return features


def _monomials(frequencies: Array, order: int) -> tuple[Array, Array]:
    """Return the axes of each monomial, and the means of its products of frequencies, counted.

    ``sum_j f(ω_j·c) (ω_j·d)^p / J`` is the sum over monomials of ``d_a d_b ...`` times f at the
    angles times these numbers.
    """
    axes = list(itertools.combinations_with_replacement(range(frequencies.shape[1]), order))
    times = [
        math.factorial(order) / math.prod(math.factorial(each.count(a)) for a in set(each))
        for each in axes
    ]
    products = np.stack([np.prod(frequencies[:, each], axis=1) for each in axes], axis=1)
    return np.array(axes), products * np.array(times) / len(frequencies)


def _cells(width: Array, frequencies: Array, most: int) -> tuple[Array, Array]:
    """Cut the differences of points of a box, one of each pair d and -d, into at most `most` cells.

    Returns the centres and the half sides; sides are shorter along axes of higher frequencies.
    """
    sides = 2 * np.asarray(width, dtype=np.float64)
    turns = np.maximum(sides * np.sqrt((frequencies**2).mean(axis=0)), 1e-300)
    counts = np.ones(len(sides), dtype=np.int64)
    while True:  # one more cell along the axis whose cells are the longest
        axis = int(np.argmax(turns / counts))
        more = counts.copy()
        more[axis] += 1
        if math.prod(more.tolist()) > 2 * most:
            break
        counts = more
    counts[0] += counts[0] % 2  # so that no cell lies across the middle of the first axis
    half = sides / counts / 2
    axes = [(np.arange(n) - (n - 1) / 2) * 2 * r for n, r in zip(counts, half, strict=True)]
    axes[0] = axes[0][axes[0] >= 0]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sides)), half


def _frequencies(kernel: Kernel, count: int, n_features: int, rng: Any) -> Array:
    """Draw from the spectral law: normal, Cauchy on each axis, or Student with 2 nu degrees."""
    if isinstance(kernel, ExponentialKernel):
        return np.asarray(rng.standard_cauchy((count, n_features)) * kernel.rates(n_features))
    normal: Array = rng.standard_normal((count, n_features))
    if isinstance(kernel, GaussianKernel):
        return np.asarray(normal @ kernel.whiten(np.eye(n_features)).T)
    if isinstance(kernel, MaternKernel):
        tail = np.sqrt(rng.chisquare(2 * kernel.nu, (count, 1)) / (2 * kernel.nu))
        return np.asarray(normal / tail / np.asarray(kernel.length))
    raise InvalidInputError(f"The spectral law of a {type(kernel).__name__} is not known.")
