"""One door to the array backends: NumPy by default, any array-API library when given its arrays.

The numeric rooms are written against the Python array API through `array_api_compat`. What the
standard lacks, or does slowly on NumPy, is dispatched here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np
from scipy.linalg import get_lapack_funcs

from sfumato.exceptions import InvalidInputError

__all__ = [
    "Array",
    "cast",
    "is_accelerated",
    "is_foreign",
    "like",
    "namespace_of",
    "regularized_solver",
    "to_numpy",
]

Array = Any  # an array of any array-API library; the standard gives no common class


def is_foreign(x: object) -> bool:
    """Tell whether `x` is an array of a library other than NumPy, say a PyTorch tensor."""
    return array_api_compat.is_array_api_obj(x) and not isinstance(x, np.ndarray | np.generic)


def namespace_of(x: object) -> Any:
    """Give the array-API namespace of `x`; anything that is no foreign array counts as NumPy."""
    return array_api_compat.array_namespace(x if is_foreign(x) else np.empty(0))


def is_accelerated(x: object) -> bool:
    """Tell whether `x` lives on a device where many small problems should go in one batch."""
    return array_api_compat.is_torch_array(x) and array_api_compat.device(x).type != "cpu"


def cast(x: Array, dtype: str) -> Array:
    """Give `x` with the floating type named "float32" or "float64"; no copy when it has it."""
    xp = namespace_of(x)
    return xp.astype(x, getattr(xp, dtype), copy=False)


def to_numpy(x: Any) -> np.ndarray:
    """Copy an array of any library and device to the host."""
    if array_api_compat.is_torch_array(x):
        return np.asarray(x.detach().cpu())
    return np.asarray(x)


def like(reference: object, x: Any) -> Array:
    """Give `x` as an array of the library and on the device of `reference`."""
    if not is_foreign(reference):
        return to_numpy(x)
    xp = namespace_of(reference)
    if not is_foreign(x) or namespace_of(x) is not xp:
        return xp.asarray(to_numpy(x), device=array_api_compat.device(reference))
    return array_api_compat.to_device(x, array_api_compat.device(reference))


def regularized_solver(matrix: Array, shift: Array) -> Callable[[Array], Array]:
    """Factor ``A + shift·I`` once and give the map ``C -> (A + shift·I)⁻¹ C``.

    A is symmetric and the sum positive definite. Leading dimensions are a batch: `matrix` is
    (..., N, N) and `shift` is (...,).
    """
    xp = namespace_of(matrix)
    if array_api_compat.is_numpy_array(matrix) and matrix.ndim == 2:
        return _lapack_solver(matrix, float(shift))
    n = matrix.shape[-1]
    identity = xp.eye(n, dtype=matrix.dtype, device=array_api_compat.device(matrix))
    shifted = matrix + shift[..., None, None] * identity
    if array_api_compat.is_torch_array(matrix):
        factor = xp.linalg.cholesky(shifted)
        return lambda columns: xp.cholesky_solve(columns, factor)
    return lambda columns: xp.linalg.solve(shifted, columns)


def _lapack_solver(matrix: np.ndarray, shift: float) -> Callable[[Array], Array]:
    potrf, potrs = get_lapack_funcs(("potrf", "potrs"), (matrix,))
    # LAPACK wants columns; the transpose of a symmetric matrix is the matrix itself.
    shifted = matrix.copy()
    shifted.reshape(-1)[:: len(matrix) + 1] += shift
    factor, failed = potrf(shifted.T, lower=True, overwrite_a=True, clean=False)
    if failed:
        raise InvalidInputError(
            "The kernel matrix plus regularization is not positive definite in floating point; "
            "scale the features to about [0, 1]."
        )

    def solve(columns: Array) -> Array:
        solution, _ = potrs(factor, columns, lower=True)
        return solution

    return solve
