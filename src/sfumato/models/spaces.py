"""The two spaces in which a kernel density estimate is released.

In the space of its own Gaussian kernel (section 4.1 of the paper on private functions) the sum of
kernels has coordinates in exact features (Taylor or periodic), or in public random Fourier
features where those would be too many. In the Sobolev space of the exponential kernel (section
4.2) it has the coordinates of its values on a public grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.linalg import solve_banded
from scipy.special import erf
from scipy.stats.qmc import Sobol

from sfumato.exceptions import InvalidInputError
from sfumato.models.features import Domain, FourierFeatures, GaussianKernel, PublicFeatures
from sfumato.models.smoothing import density_threshold
from sfumato.privacy.guarantee import Relation

Array = NDArray[np.float64]


BLOCK = 64  # rows whose bumps are added up together
ROUNDINGS = 96  # of a sum of bumps: within a block, between blocks, of bumps and of whitening
MAX_WIDTH = 1000.0  # bandwidth in sides of the box
MAX_OVERLAP = 0.999  # keeps the sensitivity far above rounding errors of the features
KNOTS_OF_AN_AXIS = {1: 1001, 2: 129, 3: 41}
CELLS_OF_AN_AXIS = {1: 1024, 2: 128, 3: 40}
SOBOL_BITS = 13
# Sobolev norms are computed in units of the bandwidth. Beyond this width the two ends of the
# interval no longer see each other: what is left out is below 1e-12.
FAR_APART = 14.0
NEGLECTED = 1e-9
CERTIFIED_TO = 6e-3  # the search for the largest norm stops this close to it


def feature_sum_sensitivity(
    relation: str | Relation, *, min_kernel: float = 0.0, n_classes: int = 1
) -> float:
    """Norm by which one record moves ``sum_i phi(x_i)``, ``phi(x).phi(z) = k(x, z)``, k(x, x) = 1.

    Adding x moves it by ``||phi(x)|| = 1``. Replacing x by z moves it by
    ``sqrt(2 - 2 k(x, z)) <= sqrt(2 - 2 k_min)``, which is √2 where rows may lie far apart. With a
    sum per class, a changed label moves two of them by 1 each: √2 again, for any number of classes.
    """
    if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
        return 1.0
    overlap = min_kernel if n_classes == 1 else 0.0
    return math.sqrt(2 - 2 * overlap)


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


def sobolev_sensitivity(relation: str | Relation, widths: Sequence[float]) -> float:
    """Norm by which one record moves ``sum_i prod_j N(x_j; x_ij, 1)`` in the tensor Sobolev space.

    An upper bound, for a box of these sides in bandwidths, within 1 % of the supremum in one
    dimension: the largest norm is searched by bisection of the box, and cells are discarded by a
    Lipschitz bound only.
    """
    lengths = [min(float(width), FAR_APART) for width in widths]
    if not lengths or min(lengths) <= 0:
        raise InvalidInputError("'widths' must be positive, one per dimension.")
    squares = [_largest("norm", length) ** 2 for length in lengths]
    if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
        return math.sqrt(math.prod(squares)) + NEGLECTED
    if len(lengths) == 1:
        return _largest("distance", lengths[0]) + NEGLECTED
    # ||f - g||² <= 2 prod N_j - 2 prod <f_j, g_j>. A product of numbers of [-c_j, N_j], c_j <= N_j,
    # is least with one of them negative.
    worst = max(
        _largest("opposition", length) * math.prod(squares) / square
        for length, square in zip(lengths, squares, strict=True)
    )
    return math.sqrt(2 * math.prod(squares) + 2 * worst) + NEGLECTED


@lru_cache
def _largest(what: str, width: float) -> float:
    """Return an upper bound of the norm of a bump, of the distance of two, or of ``-<f, g>``.

    The box is halved along each axis, and cells are discarded by the Lipschitz constant alone.
    """
    dimension = 1 if what == "norm" else 2
    lipschitz = _LIPSCHITZ * (_largest("norm", width) if what == "opposition" else 1.0)
    cells, half = np.full((1, dimension), width / 2), width / 2
    corners = np.stack(np.meshgrid(*[[-0.5, 0.5]] * dimension), axis=-1).reshape(-1, dimension)
    while True:
        a, b = cells[:, 0], cells[:, -1]
        values = sobolev_inner_product(a, b, width)
        if what == "norm":
            values = np.sqrt(values)
        elif what == "opposition":
            values = np.maximum(-values, 0.0)
        else:
            squares = sum(sobolev_inner_product(z, z, width) for z in (a, b))
            values = np.sqrt(np.maximum(squares - 2 * values, 0.0))
        above = dimension * lipschitz * half
        best = float(values.max())
        if above <= CERTIFIED_TO * lipschitz:
            return best + above
        cells = cells[values + above >= best]
        if dimension == 2:  # all of it is symmetric
            cells = cells[cells[:, 0] <= cells[:, 1]]
        half /= 2
        cells = (cells[:, None, :] + 2 * half * corners).reshape(-1, dimension)


# Spaces -------------------------------------------------------------------------------------------


def public_nodes(domain: Domain) -> tuple[Array, Array]:
    """Return points spread evenly over a box, each for an equal share of it, and their sides.

    Middles of equal cells in up to three dimensions, a Sobol sequence above.
    """
    per_axis = CELLS_OF_AN_AXIS.get(domain.n_features)
    if per_axis is None:
        places = Sobol(domain.n_features, scramble=False).random_base2(SOBOL_BITS)
        places = places + 2.0 ** -(SOBOL_BITS + 1)
        sides = domain.width * len(places) ** (-1 / domain.n_features)
        return domain.lower + places * domain.width, sides
    middles = (np.arange(per_axis) + 0.5) / per_axis
    axes = [domain.lower[j] + middles * width for j, width in enumerate(domain.width)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    return grid.reshape(-1, domain.n_features), domain.width / per_axis


class MarkovLine:
    """``L`` with ``L Lᵀ = exp(-γ |x_i - x_j|)`` for increasing x; ``L⁻¹`` has two diagonals.

    points (n,): Strictly increasing.
    """

    def __init__(self, points: Array, rate: float) -> None:
        gaps = rate * np.diff(points)
        if gaps.size and not gaps.min() > 0:
            raise InvalidInputError("The points of a line must increase strictly.")
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

    features: Public features of the kernel.
    domain: The box of the rows.
    """

    def __init__(self, kernel: GaussianKernel, features: PublicFeatures, domain: Domain) -> None:
        self.kernel = kernel
        self.features, self.size = features, features.size
        self.domain = domain
        self.normaliser = kernel.normaliser(domain.n_features)

    def sensitivity(self, relation: str, n_classes: int) -> float:
        """Norm by which one record moves the sums."""
        if isinstance(self.features, FourierFeatures):  # a kernel of their own, down to -1
            return feature_sum_sensitivity(relation, min_kernel=-1.0)
        signs = np.stack(np.meshgrid(*[[-1.0, 1.0]] * self.domain.n_features), axis=-1)
        corners = signs.reshape(-1, self.domain.n_features) * self.domain.width
        least = float(self.kernel(np.zeros((1, self.domain.n_features)), corners).min())
        return feature_sum_sensitivity(
            relation, min_kernel=min(least, MAX_OVERLAP), n_classes=n_classes
        )

    def rounding(self, n_rows: int) -> float:
        """Norm by which rounding errors of `n_rows` rows move apart the sums of two neighbours."""
        return 2 * 2.0**-53 * n_rows * 2**15

    def statistic(self, rows: Array, weights: Array) -> Array:
        """Coordinates of ``sum_i w_i K(., x_i)``, one column per class; exact, secret."""
        return self.features.add_up(rows, weights)

    def values(self, release: Array, X: Array) -> Array:
        """Released sums at points of the box, one column per class."""
        return self.features.evaluate(release, X)


class SobolevSpace:
    """Sums of ``prod_j N(x_j; x_ij, h_j)`` by their values on a grid, times ``prod_j h_j``.

    Between grid points the released function is interpolated linearly.

    bandwidths (n_features,): h; the exponential kernel of axis j has the rate ``1 / h_j``.
    domain: The box of the rows.
    """

    def __init__(self, bandwidths: Array, domain: Domain) -> None:
        if domain.n_features not in KNOTS_OF_AN_AXIS:
            raise InvalidInputError(
                f"space='sobolev' is offered for up to {max(KNOTS_OF_AN_AXIS)} features. Got "
                f"{domain.n_features}; use space='gaussian'."
            )
        if not (bandwidths <= MAX_WIDTH * domain.width).all():
            raise InvalidInputError(
                f"A bandwidth is more than {MAX_WIDTH:g} times as wide as its feature's range; "
                "rounding errors would outweigh the rows. Give a narrower one."
            )
        self.bandwidths = bandwidths
        self.domain = domain
        self.normaliser = float(np.prod(bandwidths))
        count = KNOTS_OF_AN_AXIS[domain.n_features]
        self.size = count**domain.n_features
        ends = zip(domain.lower, domain.upper, strict=True)
        self.knots = [np.linspace(low, high, count) for low, high in ends]
        self.lines = [MarkovLine(k, 1 / h) for k, h in zip(self.knots, bandwidths, strict=True)]

    def sensitivity(self, relation: str, n_classes: int) -> float:
        """Norm by which one record moves the sums."""
        widths = (self.domain.width / self.bandwidths).tolist()
        moved = sobolev_sensitivity(relation, widths)
        if n_classes > 1:  # a changed label moves two sums, each by the norm of one bump
            alone = sobolev_sensitivity("add_or_remove_one", widths)
            moved = max(moved, alone if relation == "add_or_remove_one" else math.sqrt(2) * alone)
        return moved

    def rounding(self, n_rows: int) -> float:
        """Norm by which rounding errors of `n_rows` rows move apart the sums of two neighbours."""
        value = float((2 * math.pi) ** (-len(self.lines) / 2)) * n_rows  # largest sum of bumps
        gain = math.prod(
            2 * math.sqrt(len(k)) / line.min_spread
            for k, line in zip(self.knots, self.lines, strict=True)
        )
        return 2 * gain * value * ROUNDINGS * 2.0**-53

    def statistic(self, rows: Array, weights: Array) -> Array:
        """Whitened values on the grid, one column per class; exact, secret."""
        sums = lost = np.zeros((weights.shape[1], *(len(k) for k in self.knots)))
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            first, rest = np.ones((0, 0)), np.ones((len(rows[part]), 1))
            for axis, (knots, h) in enumerate(zip(self.knots, self.bandwidths, strict=True)):
                scaled = (knots - rows[part, axis, None]) / h
                bumps = np.exp(-(scaled**2) / 2) / math.sqrt(2 * math.pi)
                if axis == 0:
                    first = bumps
                else:  # products of bumps along the other axes
                    rest = (rest[:, :, None] * bumps[:, None, :]).reshape(len(rest), -1)
            block = np.stack([(first * w[:, None]).T @ rest for w in weights[part].T])
            sums, lost = two_sum(sums, lost, block.reshape(sums.shape))
        return self._along_axes(np.moveaxis(sums + lost, 0, -1), "whiten")

    def _along_axes(self, values: Array, step: str) -> Array:
        for axis, line in enumerate(self.lines):
            turned = np.ascontiguousarray(np.swapaxes(values, 0, axis))
            values = np.swapaxes(getattr(line, step)(turned), 0, axis)
        return values

    def values(self, release: Array, X: Array) -> Array:
        """Released sums at points of the box, one column per class."""
        on_grid = self._along_axes(release, "colour")
        return np.asarray(RegularGridInterpolator(self.knots, on_grid)(X))


def two_sum(total: Array, lost: Array, term: Array) -> tuple[Array, Array]:
    """Return the total with a term added, and all that additions have rounded off so far."""
    longer = total + term
    added = longer - total
    return longer, lost + ((total - (longer - added)) + (term - added))


# A density from noisy coordinates -----------------------------------------------------------------


@dataclass(frozen=True)
class ProcessDensity:
    """``g max(f - τ, 0)`` for released coordinates of f, one column per class."""

    space: GaussianSpace | SobolevSpace
    coefficients: Array
    scale: float  # makes the release a density estimate
    threshold: float
    gain: float
    masses: Array  # (n_nodes, n_classes), around public nodes

    @classmethod
    def of(
        cls, space: GaussianSpace | SobolevSpace, coefficients: Array, n_rows: int | None
    ) -> ProcessDensity:
        """Turn a release into a density, on public nodes; n_rows is None where it is secret."""
        points, _ = public_nodes(space.domain)
        volume = float(np.prod(space.domain.width)) / len(points)
        sums = space.values(coefficients, points)
        total = sums.sum() * volume / space.normaliser if n_rows is None else n_rows
        scale = 1 / (space.normaliser * max(float(total), 1.0))
        threshold, gain = density_threshold(sums * scale, volume)
        masses = gain * np.maximum(sums * scale - threshold, 0.0) * volume
        return cls(space, coefficients, scale, threshold, gain, np.asarray(masses))

    def raw(self, rows: Array) -> Array:
        """Return the release at points of the box, one column per class."""
        return np.asarray(self.space.values(self.coefficients, rows) * self.scale)

    def joint(self, rows: Array) -> Array:
        """Return class densities times shares of the classes, at points of the box."""
        return np.asarray(self.gain * np.maximum(self.raw(rows) - self.threshold, 0.0))

    def draw(
        self, n_samples: int, generator: np.random.RandomState
    ) -> tuple[Array, NDArray[np.intp]]:
        """Draw rows and codes of classes."""
        chances = np.ravel(self.masses) / self.masses.sum()
        numbers = generator.choice(chances.size, size=n_samples, p=chances)
        places, codes = np.divmod(numbers, self.masses.shape[1])
        domain = self.space.domain
        uniform = generator.uniform(size=(n_samples, domain.n_features))
        points, sides = public_nodes(domain)
        rows = points[places] + (uniform - 0.5) * sides  # moved inside their cells
        return np.clip(rows, domain.lower, domain.upper), codes
