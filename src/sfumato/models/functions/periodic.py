"""Fourier features of a Gaussian kernel made periodic: exact, and few for a small bandwidth.

On a line, ``sum_j k(x - y + j P)`` with ``k(u) = exp(-u²/2)`` differs from k by less than 1e-14 for
points at most ``P - 8.1`` apart, and is the series ``sum_k w_k cos(2 π k (x - y) / P)`` with
``w_k ∝ exp(-(2 π k / P)² / 2)``. Its terms are features that grow in number with the width of the
domain, where those of the Taylor series grow with its square.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.models.functions.domain import Domain
from sfumato.models.functions.features import TaylorFeatures, as_gaussian, whitened_box
from sfumato.models.kernels import Kernel
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

MARGIN = 8.1  # bandwidths that keep the copies of the kernel apart: exp(-8.1²/2) < 1e-14
HIGHEST = 8.3  # frequencies beyond have weights below 1e-14 together
MAX_DIM = 2**22


class PeriodicFeatures(TaylorFeatures):
    """``sqrt(2 w_k) cos(2 π k u / P)`` and ``sin``, tensor product over axes.

    The kernel of these features agrees with the Gaussian kernel to 1e-13 on the domain.

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
    >>> from sfumato.models.kernels import GaussianKernel
    >>> features = PeriodicFeatures(GaussianKernel(0.02), Bounds(lower=0.0, upper=1.0), 1)
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> error = features.transform(x) @ features.transform(x).T - GaussianKernel(0.02)(x, x)
    >>> features.size, bool(np.abs(error).max() < 1e-13)
    (155, True)
    """

    kind = "periodic"

    def __init__(self, kernel: Kernel, domain: Bounds, n_features: int) -> None:
        self.kernel = as_gaussian("PeriodicFeatures", kernel)
        self.domain = Domain(domain, n_features, bits=0)
        self.n_features = n_features
        self._centre, self._radii = whitened_box(self.kernel, self.domain)
        self._periods = 2 * self._radii + MARGIN
        highest = np.ceil(HIGHEST * self._periods / (2 * math.pi))
        if np.sum(np.log(2 * highest + 1)) > math.log(MAX_DIM):
            raise InvalidInputError(
                f"The domain is too wide for this bandwidth: more than {MAX_DIM} features would be "
                "needed. Take a larger bandwidth or a smaller domain."
            )
        self.sizes = tuple(int(2 * k + 1) for k in highest)
        self.size = math.prod(self.sizes)

    def _axes(self, X: Array) -> list[Array]:
        whitened = self.kernel.whiten(X) - self._centre
        whitened = np.clip(whitened, -self._radii, self._radii)
        axes = zip(whitened.T, self._periods, self.sizes, strict=True)
        return [_waves(u, period, size) for u, period, size in axes]


def _waves(u: Array, period: float, size: int) -> Array:
    """Features of one axis; their squares add up to 1 at every point."""
    step = 2 * math.pi / period
    numbers = np.arange(1, size // 2 + 1)
    weights = np.exp(-((step * np.arange(size // 2 + 1)) ** 2) / 2)
    weights[1:] *= 2
    lengths = np.sqrt(weights / weights.sum())
    angles = step * numbers * u[:, None]
    constant = np.full((len(u), 1), lengths[0])
    return np.concatenate(
        [constant, np.cos(angles) * lengths[1:], np.sin(angles) * lengths[1:]], axis=1
    )
