"""The two spaces in which a kernel density estimate is released, a record replaced.

In the space of its own Gaussian kernel (section 4.1) the sum of kernels has coordinates in exact
features (Taylor or periodic). In the Sobolev space of the exponential kernel on a line (section
4.2) it has the coordinates of its values on a public grid.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.linalg import solve_banded
from scipy.special import erf

from sfumato.exceptions import InvalidInputError
from sfumato.models.features import Domain, GaussianKernel, TaylorFeatures

Array = NDArray[np.float64]


BLOCK = 64  # rows whose bumps are added up together
MANY_ROWS = 2**14  # whose features are
ROUNDINGS = 96  # of a sum of bumps: within a block, between blocks, of bumps and of whitening
MAX_WIDTH = 1000.0  # bandwidth in sides of the box
MAX_OVERLAP = 0.999  # keeps the sensitivity far above rounding errors of the features
N_KNOTS = 1001
# Sobolev norms are computed in units of the bandwidth. Beyond this width the two ends of the
# interval no longer see each other: what is left out is below 1e-12.
FAR_APART = 14.0
NEGLECTED = 1e-9
CERTIFIED_TO = 6e-3  # the search for the largest norm stops this close to it


# The Sobolev space of the exponential kernel -----------------------------------------------------


def sobolev_inner_product(a: Array, b: Array, width: float) -> Array:
    """``<N(.; a, 1), N(.; b, 1)>`` in H1[0, width] with kernel ``exp(-|x - y|)``, in closed form.

    ``<f, g> = (f(0) g(0) + f(w) g(w)) / 2 + 1/2 ∫ f' g' + f g``; for bandwidth h and kernel
    ``exp(-|x - y| / h)`` lengths are divided by h and the product is divided by h².
    """
    middle, apart = (a + b) / 2, (a - b) ** 2 / 4
    left, right = middle, width - middle
    mass = math.sqrt(math.pi) / 2 * (erf(left) + erf(right))
    edges = left * np.exp(-(left**2)) + right * np.exp(-(right**2))
    inside = ((1.5 - apart) * mass - edges / 2) * np.exp(-apart) / (4 * math.pi)
    ends = np.exp(-(a**2 + b**2) / 2) + np.exp(-((width - a) ** 2 + (width - b) ** 2) / 2)
    return np.asarray(inside + ends / (4 * math.pi))


# ||d/da N(.; a, 1)||² <= 1/2 ∫ (phi''² + phi'²) over the line + the largest phi'² of the two ends.
_LIPSCHITZ = math.sqrt(5 / (16 * math.sqrt(math.pi)) + math.exp(-1) / (2 * math.pi))


@lru_cache
def sobolev_sensitivity(width: float) -> float:
    """Norm by which replacing a record moves ``sum_i N(x; x_i, 1)``: largest distance of bumps.

    An upper bound within 1 % of the supremum, for an interval of this width in bandwidths. The
    square of pairs of bumps is halved along each axis, and cells are discarded by the Lipschitz
    constant alone.
    """
    width = min(width, FAR_APART)
    cells, half = np.full((1, 2), width / 2), width / 2
    corners = np.stack(np.meshgrid(*[[-0.5, 0.5]] * 2), axis=-1).reshape(-1, 2)
    while True:
        a, b = cells.T
        squares = sum(sobolev_inner_product(z, z, width) for z in (a, b))
        values = np.sqrt(np.maximum(squares - 2 * sobolev_inner_product(a, b, width), 0.0))
        above = 2 * _LIPSCHITZ * half
        best = float(values.max())
        if above <= CERTIFIED_TO * _LIPSCHITZ:
            return best + above + NEGLECTED
        cells = cells[values + above >= best]
        cells = cells[cells[:, 0] <= cells[:, 1]]  # all of it is symmetric
        half /= 2
        cells = (cells[:, None, :] + 2 * half * corners).reshape(-1, 2)


# Spaces -------------------------------------------------------------------------------------------


class MarkovLine:
    """``L`` with ``L Lᵀ = exp(-γ |x_i - x_j|)`` for increasing x; ``L⁻¹`` has two diagonals.

    points (n,): Strictly increasing.
    """

    def __init__(self, points: Array, rate: float) -> None:
        gaps = rate * np.diff(points)
        if gaps.size and not gaps.min() > 0:
            raise InvalidInputError("A line needs strictly increasing points and a rate > 0.")
        self._decay = np.exp(-gaps)
        self._spread = np.concatenate([[1.0], np.sqrt(-np.expm1(-2 * gaps))])
        self.min_spread = float(self._spread.min())  # whitening divides by it

    def whiten(self, values: Array) -> Array:
        """Return ``L⁻¹ v`` along the first axis."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        innovations = values.copy()
        innovations[1:] -= self._decay.reshape(shape) * values[:-1]
        return np.asarray(innovations / self._spread.reshape(shape))

    def colour(self, coordinates: Array) -> Array:
        """Return ``L c`` along the first axis."""
        shape = (-1,) + (1,) * (coordinates.ndim - 1)
        diagonals = np.ones((2, len(self._spread)))
        diagonals[1, :-1] = -self._decay
        right = coordinates * self._spread.reshape(shape)
        flat = solve_banded((1, 0), diagonals, right.reshape(len(right), -1))
        return np.asarray(flat.reshape(coordinates.shape))


class GaussianSpace:
    """Sums of ``exp(-½ (x - x_i)ᵀ H⁻¹ (x - x_i))`` as a finite vector.

    features: Exact features of the kernel.
    domain: The box of the rows.
    """

    def __init__(self, kernel: GaussianKernel, features: TaylorFeatures, domain: Domain) -> None:
        self.kernel = kernel
        self.features, self.size = features, features.size
        self.domain = domain
        self.normaliser = kernel.normaliser(domain.n_features)

    def sensitivity(self) -> float:
        """``sqrt(2 - 2 k(x, z))``, the norm by which replacing x by z moves the sum, at most."""
        signs = np.stack(np.meshgrid(*[[-1.0, 1.0]] * self.domain.n_features), axis=-1)
        corners = signs.reshape(-1, self.domain.n_features) * self.domain.width
        least = float(self.kernel(np.zeros((1, self.domain.n_features)), corners).min())
        return math.sqrt(2 - 2 * min(least, MAX_OVERLAP))

    def rounding(self, n_rows: int) -> float:
        """Norm by which rounding errors of `n_rows` rows move apart the sums of two neighbours."""
        return 2 * 2.0**-53 * n_rows * 2**15

    def statistic(self, rows: Array) -> Array:
        """Coordinates of ``sum_i K(., x_i)``; exact, secret."""
        total = lost = np.zeros((self.size, 1))
        for start in range(0, len(rows), MANY_ROWS):
            part = rows[start : start + MANY_ROWS]
            total, lost = two_sum(total, lost, self.features.add_up(part)[:, None])
        return total + lost

    def values(self, release: Array, X: Array) -> Array:
        """Released sums at points of the box."""
        return self.features.evaluate(release, X)[:, 0]


class SobolevSpace:
    """Sums of ``N(x; x_i, h)`` on a line by their values on a grid, times h.

    Between grid points the released function is interpolated linearly.

    bandwidth: h; the exponential kernel has the rate ``1 / h``.
    domain: The interval of the rows.
    """

    def __init__(self, bandwidth: float, domain: Domain) -> None:
        if domain.n_features != 1:
            raise InvalidInputError(
                f"space='sobolev' needs one feature. Got {domain.n_features}; use space='gaussian'."
            )
        if bandwidth > MAX_WIDTH * domain.width[0]:
            raise InvalidInputError(
                f"The bandwidth is more than {MAX_WIDTH:g} times as wide as the feature's range; "
                "rounding errors would outweigh the rows. Give a narrower one."
            )
        self.normaliser, self.domain, self.size = bandwidth, domain, N_KNOTS
        self.knots = np.linspace(domain.lower[0], domain.upper[0], N_KNOTS)
        self.line = MarkovLine(self.knots, 1 / bandwidth)

    def sensitivity(self) -> float:
        """Norm by which replacing a record moves the sum, at most."""
        return sobolev_sensitivity(float(self.domain.width[0] / self.normaliser))

    def rounding(self, n_rows: int) -> float:
        """Norm by which rounding errors of `n_rows` rows move apart the sums of two neighbours."""
        value = float((2 * math.pi) ** -0.5) * n_rows  # largest sum of bumps
        gain = 2 * math.sqrt(N_KNOTS) / self.line.min_spread
        return 2 * gain * value * ROUNDINGS * 2.0**-53

    def statistic(self, rows: Array) -> Array:
        """Whitened values on the grid; exact, secret."""
        sums = lost = np.zeros((N_KNOTS, 1))
        for start in range(0, len(rows), BLOCK):
            scaled = (self.knots - rows[start : start + BLOCK]) / self.normaliser
            bumps = np.exp(-(scaled**2) / 2) / math.sqrt(2 * math.pi)
            sums, lost = two_sum(sums, lost, bumps.T @ np.ones((len(bumps), 1)))
        return self.line.whiten(sums + lost)

    def values(self, release: Array, X: Array) -> Array:
        """Released sums at points of the interval."""
        on_grid = RegularGridInterpolator([self.knots], self.line.colour(release))
        return np.asarray(on_grid(X)[:, 0])


def two_sum(total: Array, lost: Array, term: Array) -> tuple[Array, Array]:
    """Return the total with a term added, and all that additions have rounded off so far."""
    longer = total + term
    added = longer - total
    return longer, lost + ((total - (longer - added)) + (term - added))
