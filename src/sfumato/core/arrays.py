"""One door to the array backends: NumPy by default, any array-API library when given its arrays.

The numeric rooms are written against the Python array API through `array_api_compat`. What the
standard lacks, or does slowly on NumPy, is dispatched here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import array_api_compat
import numpy as np

from sfumato.exceptions import InvalidInputError

NUMPY = array_api_compat.array_namespace(np.empty(0))
Array = Any  # an array of any array-API library; the standard gives no common class
# Rows of a block of the Cholesky factorisation: of few rows, of many, and on an accelerator, which
# waits for the interpreter between blocks. Measured among 64 to 512.
BLOCK, LONG_BLOCK, ACCELERATED_BLOCK = 96, 192, 256
MANY_ROWS = 2048
NOT_POSITIVE = (
    "The kernel matrix plus regularization is not positive definite in floating point; "
    "scale the features to about [0, 1]."
)
# Numbers whose squares can be added up and squared again without overflow.
MAX_MAGNITUDE, MAX_FLOAT32 = 2.0**200, 2.0**24


def is_foreign_array(x: object) -> bool:
    """Return whether `x` is an array of a library other than NumPy, say a PyTorch tensor."""
    return not isinstance(x, np.ndarray | np.generic) and array_api_compat.is_array_api_obj(x)


def namespace_of(x: object) -> Any:
    """Return the array-API namespace of `x`; anything that is no foreign array counts as NumPy."""
    return array_api_compat.array_namespace(x) if is_foreign_array(x) else NUMPY


def is_accelerated(x: object) -> bool:
    """Return whether `x` lives on a device where many small problems should go in one batch."""
    return array_api_compat.is_torch_array(x) and array_api_compat.device(x).type != "cpu"


def cast(x: Array, dtype: str) -> Array:
    """Return `x` with the floating type named "float32" or "float64"; no copy when it has it."""
    xp = namespace_of(x)
    return xp.astype(x, getattr(xp, dtype), copy=False)


def contiguous(x: Array, dtype: str) -> Array:
    """Return `x` of a floating type in one block of memory, as it will come back from a file.

    Matrix products of a view and of a packed copy may differ in their last bits.
    """
    x = cast(x, dtype)
    if isinstance(x, np.ndarray) and not (x.flags.c_contiguous or x.flags.f_contiguous):
        return np.ascontiguousarray(x)
    return x


def clip_to_finite(x: Array, dtype: str = "float64") -> Array:
    """Move numbers beyond 2**200 (2**24 for "float32") to it; no copy where there are none.

    A query so far away is answered like one a little nearer, and without overflow.
    """
    xp = namespace_of(x)
    largest = MAX_FLOAT32 if "float32" in (dtype, str(x.dtype).split(".")[-1]) else MAX_MAGNITUDE
    return xp.clip(x, -largest, largest) if bool(xp.any(xp.abs(x) > largest)) else x


def to_numpy(x: Any) -> np.ndarray:
    """Copy an array of any library and device to the host."""
    if not array_api_compat.is_torch_array(x):
        return np.asarray(x)
    if not is_accelerated(x):
        return np.asarray(x.detach())
    # NumPy asks for large pages of memory, which are there in less than half of the time.
    copy = np.empty(tuple(x.shape), dtype=str(x.dtype).removeprefix("torch."))
    import_module("torch").from_numpy(copy).copy_(x.detach())
    return copy


def by_columns(x: Array) -> Array:
    """Return a matrix with its columns one after the other in memory, where a library lets choose.

    An accelerator multiplies a long one by few vectors in two thirds of the time then.
    """
    return x.T.contiguous().T if array_api_compat.is_torch_array(x) else x


def to_host(x: Any) -> Any:
    """Copy a tensor of another library to the host; return anything else as it is."""
    return to_numpy(x) if is_foreign_array(x) else x


def like(reference: object, x: Any) -> Array:
    """Return `x` as an array of the library and on the device of `reference`."""
    xp = namespace_of(reference)
    if xp is NUMPY:
        return to_numpy(x)
    if not is_foreign_array(x) or namespace_of(x) is not xp:
        return xp.asarray(to_numpy(x), device=array_api_compat.device(reference))
    return array_api_compat.to_device(x, array_api_compat.device(reference))


def regularized_solver(matrix: Array, shift: Array) -> Callable[[Array], Array]:
    """Factor ``A + shift·I`` once and return the map ``C -> (A + shift·I)⁻¹ C``.

    A is symmetric and the sum positive definite. Leading dimensions are a batch: `matrix` is
    (..., N, N) and `shift` is (...,).

    Notes
    -----
    A Cholesky factorisation by blocks, in which nearly all work is matrix products. That is faster
    than LAPACK's solve with many columns, runs alike on every backend and in batches, and leaves
    the interpreter free for other threads, which SciPy's wrappers of LAPACK do not.
    """
    xp, n_rows = namespace_of(matrix), matrix.shape[-1]
    block = LONG_BLOCK if n_rows > MANY_ROWS else BLOCK
    block = ACCELERATED_BLOCK if is_accelerated(matrix) else block
    cuts = [(a, min(a + block, n_rows)) for a in range(0, n_rows, block)]
    # L below its diagonal blocks (the rest is unused), and their inverses.
    lower, inverses, failures = xp.asarray(matrix, copy=True), [], []
    for a, b in cuts:
        panel = lower[..., a:, a:b]
        if a:
            panel = panel - lower[..., a:, :a] @ xp.matrix_transpose(lower[..., a:b, :a])
        identity = xp.eye(b - a, dtype=matrix.dtype, device=array_api_compat.device(matrix))
        corner = panel[..., : b - a, :] + shift[..., None, None] * identity
        if array_api_compat.is_torch_array(corner):  # to ask whether it failed is to wait for it
            factor, failed = import_module("torch").linalg.cholesky_ex(corner)
            failures.append(failed)
        else:
            try:
                factor = xp.linalg.cholesky(corner)
            except np.linalg.LinAlgError:
                raise InvalidInputError(NOT_POSITIVE) from None
        inverse = inverse_of_lower(factor)
        lower[..., b:, a:b] = panel[..., b - a :, :] @ xp.matrix_transpose(inverse)
        inverses.append(inverse)
    if failures and bool(xp.any(xp.stack(failures) != 0)):
        raise InvalidInputError(NOT_POSITIVE)

    def solve(columns: Array) -> Array:
        solution = xp.asarray(columns, copy=True)
        steps = list(zip(cuts, inverses, strict=True))
        for (a, b), inverse in steps:
            known = lower[..., a:b, :a] @ solution[..., :a, :]
            solution[..., a:b, :] = inverse @ (solution[..., a:b, :] - known)
        for (a, b), inverse in reversed(steps):
            known = xp.matrix_transpose(lower[..., b:, a:b]) @ solution[..., b:, :]
            solution[..., a:b, :] = xp.matrix_transpose(inverse) @ (solution[..., a:b, :] - known)
        return solution

    return solve


def inverse_of_lower(factor: Array) -> Array:
    """Invert lower triangular matrices; PyTorch's general inverse is slow in batches."""
    xp = namespace_of(factor)
    if not array_api_compat.is_torch_array(factor):
        return xp.linalg.inv(factor)
    identity = xp.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    solve = import_module("torch").linalg.solve_triangular
    return solve(factor, identity.expand(factor.shape), upper=False)
