"""Functions of a reproducing kernel Hilbert space, written as finite sums of kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.kernels.covariance import Kernel

__all__ = ["KernelExpansion"]

Array = NDArray[np.float64]
BLOCK = 2**22  # kernel values computed at a time


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
    >>> from sfumato.kernels import GaussianKernel
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
        """Give ``||f||_H = sqrt(wᵀ K w)`` (of k functions, the root of the sum of squares).

        Returns
        -------
        float
            The norm.
        """
        squares = np.sum(self.weights * self(self.centres))
        return float(np.sqrt(max(0.0, squares)))
