"""Random Fourier features: a public random map whose own kernel replaces the exact one."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.exceptions import InvalidInputError
from sfumato.functions.features import FeatureMap, Function
from sfumato.kernels import ExponentialKernel, GaussianKernel, Kernel, MaternKernel

__all__ = ["FourierFeatures"]

Array = NDArray[np.float64]


class FourierFeatures(FeatureMap):
    """``φ(x) = (cos(ω_j·x), sin(ω_j·x))_j / sqrt(J)`` with public frequencies ω; ``||φ(x)|| = 1``.

    The kernel ``φ(x)·φ(y)`` is near K, at a distance of about ``1/sqrt(J)``, and is not K: fit and
    release in the space of the map itself, where every bound with ``sup K = 1`` holds as it
    stands. ``φ(x)·φ(y)`` may be negative, so a mean of φ moves by 2/n, not by √2/n.

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
    >>> from sfumato.kernels import GaussianKernel
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
            "does not hold in its space. Use Taylor or knot features, or release a vector in the "
            "space of the map with GaussianMechanism and the sensitivity it has there."
        )

    def transform(self, X: Array) -> Array:
        """Give φ(x) for each row."""
        angles = X @ self.frequencies.T
        both = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return np.asarray(both / np.sqrt(len(self.frequencies)))

    def to_dict(self) -> dict[str, Any]:
        """Give the map as plain values and arrays."""
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
