"""Covariance kernels with ``K(x, x) = 1``: Gaussian, exponential and Matérn, as plain records."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]


BLOCK = 2**22  # kernel values computed at a time


@dataclass(frozen=True)
class Kernel(ABC):
    """A positive definite function of two points, at most `sup` on the diagonal."""

    kind: ClassVar[str] = "kernel"
    sup: ClassVar[float] = 1.0

    @abstractmethod
    def __call__(self, A: Array, B: Array) -> Array:
        """Return the matrix ``K(a_i, b_j)`` for rows of `A` and `B`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain values.

        Returns
        -------
        dict
            Plain values, which `kernel_from_dict` reads.
        """
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class GaussianKernel(Kernel):
    """``K(x, y) = exp(-½ (x - y)ᵀ H⁻¹ (x - y))``.

    Parameters
    ----------
    bandwidth : float, sequence of float or matrix
        Width h (then ``H = h² I``), one h per axis (``H = diag(h²)``), or the matrix H itself.

    Examples
    --------
    >>> import numpy as np
    >>> GaussianKernel(0.5)(np.array([[0.0]]), np.array([[0.0], [0.5]])).round(4)
    array([[1.    , 0.6065]])
    """

    bandwidth: Any  # kept as a float, a tuple of floats or a tuple of rows
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        given = np.asarray(self.bandwidth, dtype=float)
        if given.ndim == 2:
            object.__setattr__(self, "bandwidth", _positive_definite(given))
        else:
            object.__setattr__(self, "bandwidth", _scales("bandwidth", given))

    @property
    def is_full(self) -> bool:
        """Whether H is a full matrix, so that axes are mixed."""
        return isinstance(self.bandwidth, tuple) and isinstance(self.bandwidth[0], tuple)

    def whiten(self, X: Array) -> Array:
        """Return rows u with ``K = exp(-½ ||u - u'||²)``.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The rows u.
        """
        if not self.is_full:
            return np.asarray(X / _fitting(self.bandwidth, X))
        factor = np.linalg.cholesky(_fitting(self.bandwidth, X))
        return np.asarray(solve_triangular(factor, X.T, lower=True).T)

    def normaliser(self, n_features: int) -> float:
        """Return ``(2π)^(d/2) |H|^(1/2)``: the kernel divided by it is a density.

        Parameters
        ----------
        n_features : int
            Numbers of a row.

        Returns
        -------
        float
            The integral of the kernel.
        """
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


@dataclass(frozen=True)
class ExponentialKernel(Kernel):
    """``K(x, y) = exp(-sum_j γ_j |x_j - y_j|)``: Sobolev H¹, tensor product over the axes.

    Parameters
    ----------
    rate : float or sequence of float
        Rate γ, one for all axes or one per axis.

    Examples
    --------
    >>> import numpy as np
    >>> ExponentialKernel(2.0)(np.array([[0.0, 0.0]]), np.array([[0.5, 0.5]])).round(4)
    array([[0.1353]])
    """

    rate: Any
    kind: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _scales("rate", np.asarray(self.rate, dtype=float)))

    def rates(self, n_features: int) -> Array:
        """Return γ_j for each axis.

        Parameters
        ----------
        n_features : int
            Numbers of a row.

        Returns
        -------
        ndarray of shape (n_features,)
            The rates.
        """
        return np.asarray(np.zeros(n_features) + _fitting(self.rate, np.empty((0, n_features))))

    def __call__(self, A: Array, B: Array) -> Array:
        """Return the matrix ``K(a_i, b_j)`` for rows of `A` and `B`."""
        rates = self.rates(A.shape[1])
        return np.asarray(np.exp(-cdist(A * rates, B * rates, "cityblock")))


@dataclass(frozen=True)
class MaternKernel(Kernel):
    """Matérn covariance of the Euclidean distance r, with ``t = sqrt(2 nu) r / length``.

    ``exp(-t)``, ``(1 + t) exp(-t)`` or ``(1 + t + t²/3) exp(-t)`` for nu = 1/2, 3/2, 5/2.

    Parameters
    ----------
    nu : {0.5, 1.5, 2.5}
        Smoothness.
    length : float or sequence of float
        Length scale, one for all axes or one per axis.

    Examples
    --------
    >>> import numpy as np
    >>> MaternKernel(1.5, 1.0)(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.4834]])
    """

    nu: float
    length: Any
    kind: ClassVar[str] = "matern"

    def __post_init__(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise InvalidInputError(f"'nu' must be 0.5, 1.5 or 2.5. Got {self.nu} instead.")
        object.__setattr__(self, "length", _scales("length", np.asarray(self.length, dtype=float)))

    def __call__(self, A: Array, B: Array) -> Array:
        """Return the matrix ``K(a_i, b_j)`` for rows of `A` and `B`."""
        lengths = _fitting(self.length, A)
        t = math.sqrt(2 * self.nu) * cdist(A / lengths, B / lengths)
        polynomial = {0.5: 1.0, 1.5: 1 + t, 2.5: 1 + t + t**2 / 3}[self.nu]
        return np.asarray(polynomial * np.exp(-t))


_KINDS: dict[str, type[Kernel]] = {
    kind.kind: kind for kind in (ExponentialKernel, GaussianKernel, MaternKernel)
}


def kernel_from_dict(record: Mapping[str, Any]) -> Kernel:
    """Rebuild a kernel from `Kernel.to_dict`.

    Parameters
    ----------
    record : mapping
        What `to_dict` gave.

    Returns
    -------
    Kernel
        The kernel.
    """
    values = dict(record)
    kind = values.pop("kind", None)
    if kind not in _KINDS:
        raise InvalidInputError(f"'kind' must be one of {sorted(_KINDS)}. Got {kind!r} instead.")
    return _KINDS[kind](**values)


def _scales(name: str, given: Array) -> float | tuple[float, ...]:
    if given.ndim > 1 or given.size == 0 or not (np.isfinite(given) & (given > 0)).all():
        raise InvalidInputError(
            f"'{name}' must be one finite positive number, or one for each axis."
        )
    return float(given) if given.ndim == 0 else tuple(given.tolist())


def _positive_definite(given: Array) -> tuple[tuple[float, ...], ...]:
    square = given.shape[0] == given.shape[1] and np.isfinite(given).all()
    if not (square and np.allclose(given, given.T) and np.linalg.eigvalsh(given).min() > 0):
        raise InvalidInputError("'bandwidth' given as a matrix must be positive definite.")
    symmetric = (given + given.T) / 2
    return tuple(tuple(row) for row in symmetric.tolist())


def _fitting(scales: Any, X: Array) -> Array:
    """Return the scales as an array, after checking that they are as many as the axes of `X`."""
    array = np.asarray(scales, dtype=float)
    if array.ndim and array.shape[0] != X.shape[1]:
        raise InvalidInputError(
            f"The kernel is made for {array.shape[0]} axes, the points have {X.shape[1]}."
        )
    return array


@dataclass(frozen=True, eq=False, repr=False)
class KernelExpansion:
    """``f(x) = sum_i w_i K(x, c_i)``; with weights of shape (n, k), k such functions.

    Parameters
    ----------
    kernel : Kernel
        K.
    centres : ndarray of shape (n, d)
        The points c_i. They may be raw rows: whoever holds this object holds them.
    weights : ndarray of shape (n,) or (n, k)
        The weights w_i.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.models.covariance import GaussianKernel
    >>> f = KernelExpansion(GaussianKernel(1.0), np.zeros((1, 1)), np.array([2.0]))
    >>> f(np.zeros((3, 1)))
    array([2., 2., 2.])
    >>> f.norm()
    2.0
    """

    kernel: Kernel
    centres: Array
    weights: Array

    def __post_init__(self) -> None:
        if self.centres.ndim != 2 or len(self.centres) != len(self.weights):
            raise InvalidInputError("'centres' must be rows, and 'weights' one row for each.")

    def __call__(self, X: Array) -> Array:
        """Evaluate at the rows of `X`."""
        rows = max(1, BLOCK // max(1, len(self.centres)))
        starts = range(0, max(1, len(X)), rows)
        parts = [self.kernel(X[i : i + rows], self.centres) @ self.weights for i in starts]
        return np.concatenate(parts)

    def norm(self) -> float:
        """Return ``||f||_H = sqrt(wᵀ K w)`` (of k functions, the root of the sum of squares).

        Returns
        -------
        float
            The norm.
        """
        squares = np.sum(self.weights * self(self.centres))
        return float(np.sqrt(max(0.0, squares)))
