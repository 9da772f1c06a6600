"""The two spaces in which a kernel density estimate is released.

In the space of its own Gaussian kernel (section 4.1 of the paper on private functions) the sum of
kernels has coordinates in exact features (Taylor or periodic), or in public random Fourier
features where those would be too many. In the Sobolev space of the exponential kernel (section
4.2) it has the coordinates of its values on a public grid.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from sfumato.exceptions import InvalidInputError
from sfumato.models.functions.domain import Domain
from sfumato.models.functions.features import FeatureMap, TaylorFeatures
from sfumato.models.functions.fourier import FourierFeatures
from sfumato.models.functions.periodic import PeriodicFeatures
from sfumato.models.functions.projection import Nodes
from sfumato.models.functions.sensitivity import (
    feature_sum_sensitivity,
    sobolev_sensitivity,
)
from sfumato.models.kernels import GaussianKernel, KernelExpansion
from sfumato.models.kernels.bridge import MarkovLine
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

MAX_EXACT = 2**17
BLOCK = 64  # rows whose bumps are added up together
ROUNDINGS = 96  # of a sum of bumps: within a block, between blocks, of bumps and of whitening
MAX_WIDTH = 1000.0  # bandwidth in sides of the box
MAX_OVERLAP = 0.999  # keeps the sensitivity far above rounding errors of the features
KNOTS_OF_AN_AXIS = {1: 1001, 2: 129, 3: 41}
# Of a function in one of these spaces, but for random features.
MAX_COORDINATES = max(MAX_EXACT, *(knots**d for d, knots in KNOTS_OF_AN_AXIS.items()))


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


class GaussianSpace:
    """Sums of ``exp(-½ (x - x_i)ᵀ H⁻¹ (x - x_i))`` as a finite vector.

    features: Public features of the kernel.
    domain: The box of the rows.
    """

    def __init__(self, kernel: GaussianKernel, features: FeatureMap, domain: Domain) -> None:
        self.kernel = kernel
        self.features = features
        self.domain = domain
        self.normaliser = kernel.normaliser(domain.n_features)

    def sensitivity(self, relation: str, n_classes: int) -> float:
        """Norm by which one record moves the sums."""
        if isinstance(self.features, FourierFeatures):  # a kernel of their own, which may be < 0
            smallest = min(self.features.min_kernel(self.domain.width), MAX_OVERLAP)
        else:
            smallest = self._min_kernel()
        if smallest < 0 and n_classes > 1:  # one class may hold both rows
            n_classes = 1
        return feature_sum_sensitivity(relation, min_kernel=smallest, n_classes=n_classes)

    def rounding(self, n_rows: int) -> float:
        """Norm by which rounding errors of `n_rows` rows move apart the sums of two neighbours."""
        return 2 * 2.0**-53 * n_rows * 2**15

    def _min_kernel(self) -> float:
        signs = np.stack(np.meshgrid(*[[-1.0, 1.0]] * self.domain.n_features), axis=-1)
        corners = signs.reshape(-1, self.domain.n_features) * self.domain.width
        least = float(self.kernel(np.zeros((1, self.domain.n_features)), corners).min())
        return min(least, MAX_OVERLAP)

    def statistic(self, rows: Array, weights: Array) -> Array:
        """Coordinates of ``sum_i w_i K(., x_i)``, one column per class; exact, secret."""
        return self.features.coordinates(KernelExpansion(self.kernel, rows, weights))

    def values(self, release: Array, X: Array) -> Array:
        """Released sums at points of the box, one column per class."""
        return self.features.evaluate(release, X)

    def values_at_nodes(self, release: Array, nodes: Nodes) -> Array:
        """Released sums at all nodes, one column per class."""
        if nodes.axes is None or not isinstance(self.features, TaylorFeatures):
            return self.values(release, nodes.points)
        columns = [self.features.evaluate_grid(c, nodes.axes).ravel() for c in release.T]
        return np.stack(columns, axis=1)


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
            bumps = [self._bumps(rows[part, j], j) for j in range(rows.shape[1])]
            block = np.stack([_outer_sum(bumps, w) for w in weights[part].T])
            sums, lost = two_sum(sums, lost, block.reshape(sums.shape))
        return self._along_axes(np.moveaxis(sums + lost, 0, -1), "whiten")

    def _bumps(self, column: Array, axis: int) -> Array:
        scaled = (self.knots[axis] - column[:, None]) / self.bandwidths[axis]
        return np.asarray(np.exp(-(scaled**2) / 2) / math.sqrt(2 * math.pi))

    def _along_axes(self, values: Array, step: str) -> Array:
        for axis, line in enumerate(self.lines):
            turned = np.ascontiguousarray(np.swapaxes(values, 0, axis))
            values = np.swapaxes(getattr(line, step)(turned), 0, axis)
        return values

    def values(self, release: Array, X: Array) -> Array:
        """Released sums at points of the box, one column per class."""
        on_grid = self._along_axes(release, "colour")
        return np.asarray(RegularGridInterpolator(self.knots, on_grid)(X))

    def values_at_nodes(self, release: Array, nodes: Nodes) -> Array:
        """Released sums at all nodes, one column per class."""
        return self.values(release, nodes.points)


def two_sum(total: Array, lost: Array, term: Array) -> tuple[Array, Array]:
    """Return the total with a term added, and all that additions have rounded off so far."""
    longer = total + term
    added = longer - total
    return longer, lost + ((total - (longer - added)) + (term - added))


def _outer_sum(bumps: list[Array], weights: Array) -> Array:
    """``sum_i w_i bumps_1(i) ⊗ bumps_2(i) ⊗ ...``."""
    first, *others = bumps
    rest = np.ones((len(first), 1))
    for each in others:
        rest = (rest[:, :, None] * each[:, None, :]).reshape(len(rest), -1)
    return np.asarray((first * weights[:, None]).T @ rest)
