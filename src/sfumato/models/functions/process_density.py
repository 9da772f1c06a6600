"""A density from noisy coordinates of a sum of kernels (sections 4.1 and 4.2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.models.functions.projection import Nodes, density_threshold
from sfumato.models.functions.spaces import GaussianSpace, SobolevSpace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ProcessDensity:
    """``g max(f - τ, 0)`` for released coordinates of f, one column per class.

    space: Where the coordinates live.
    coefficients: The release.
    scale: Makes the release a density estimate.
    threshold, gain: τ and g.
    masses (n_nodes, n_classes): Mass of the density around public nodes.
    """

    space: GaussianSpace | SobolevSpace
    coefficients: Array
    scale: float
    threshold: float
    gain: float
    masses: Array

    @classmethod
    def of(
        cls, space: GaussianSpace | SobolevSpace, coefficients: Array, n_rows: int | None
    ) -> ProcessDensity:
        """Turn a release into a density, on public nodes; n_rows is None where it is secret."""
        nodes = Nodes(space.domain)
        sums = space.values_at_nodes(coefficients, nodes)
        total = sums.sum() * nodes.volume / space.normaliser if n_rows is None else n_rows
        scale = 1 / (space.normaliser * max(float(total), 1.0))
        threshold, gain = density_threshold(sums * scale, nodes.volume)
        masses = gain * np.maximum(sums * scale - threshold, 0.0) * nodes.volume
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
        uniform = generator.uniform(size=(n_samples, self.space.domain.n_features))
        return Nodes(self.space.domain).scatter(places, uniform), codes
