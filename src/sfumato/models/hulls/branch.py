r"""One branch: the deep kernel affine hull of one set of rows, folded into a few arrays.

Layer l (from 0) of a branch fitted on rows Y with mean μ maps a point through

.. math:: A(y) = μ + V \frac{k(y)^T B_V}{k(y)^T B_1},
          \qquad B = (K + λ^* I)^{-1} [\,(Y - 1μ^T) V,\; 1\,],

where V are all principal directions of non-zero variance and the kernel sees the first n - l
principal coordinates, whitened. The solve is done once, at fit time; a prediction is two matrix
products per layer, and the input of the next layer is a slice of the image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypedDict

import numpy as np
from scipy.linalg import eigh

from sfumato.core.arrays import Array, cast, is_accelerated, namespace_of, packed
from sfumato.core.constraints import listed, numbers, record, refuse, whole
from sfumato.models.kernels.gaussian import gaussian_kernel
from sfumato.models.kernels.leading import N_LEADING, completed_basis, leading_eigenvectors
from sfumato.models.kernels.least_squares import (
    FixedPointSolution,
    is_safe_in_singles,
    solve_at_fixed_point,
    solve_in_one_factoring,
)

EPSILON = 2.0**-52
# Rows that differ by less than this share of their length are taken for one point.
SAME_POINT = 1e-24


class Branch(TypedDict):
    """Plain arrays of a fitted branch; a stack of branches has one more leading dimension."""

    mean: Array  # (p,), float64
    basis: list[Array]  # V (p, r), or two factors whose product it is
    deviations: Array  # (n,) standard deviations of the first coordinates; inf: not used
    inducing: Array  # (N, n) whitened coordinates of the rows
    coefficients: Array  # (L, N, r + 2): B_V, B_1 and |B_1|
    regularization: Array  # (L,), float64
    n_components: Any  # n of the first layer; 0 when all rows are one point


_fields = record(
    mean=numbers("d"),
    basis=listed(numbers(None, None)),
    deviations=numbers("n", above=0.0, most=math.inf),
    inducing=numbers("N", "n"),
    coefficients=numbers("L", "N", "r+2"),
    regularization=numbers("L", least=0.0),
    n_components=whole(most="n"),
)


def stored_branch(value: Any, place: str, sizes: dict[str, int]) -> None:
    """Ask a stored model for a branch over rows of d numbers."""
    _fields(value, place, sizes)
    widths = [sizes["d"], *(factor.shape[1] for factor in value["basis"])]
    heights = [*(factor.shape[0] for factor in value["basis"]), sizes["r"]]
    if widths != heights:
        raise refuse(f"{place}.basis", "a product of matrices from d to r columns")
    if not 1 <= sizes["L"] <= sizes["n"] <= sizes["r"] or not sizes["N"]:
        raise refuse(f"{place}.coefficients", "one matrix per layer, at most as many as components")


def fit_branch(
    rows: Array,
    *,
    n_components: int,
    n_layers: int,
    dtype: str,
    mask: Array | None = None,
    quick: bool = False,
) -> Branch:
    """Fit a deep hull (Definition 3) on `rows`, or a stack of them at once.

    rows: (..., N, p).
    n_components, n_layers: Subspace dimension n and number of layers L, capped by the rank of the
        rows.
    dtype ({"float64", "float32"}): Precision of the stored arrays; the fit itself is in double
        precision.
    mask (..., N, 1): Ones for rows, zeros for padding, when branches of different sizes are
        stacked.
    quick: Solve long branches in single precision too, to about 2e-4; for one layer, whose basis is
        then that of the rows.
    """
    rows = cast(rows, "float64")
    xp = namespace_of(rows)
    rows = rows if mask is None else rows * mask
    mask = xp.ones_like(rows[..., :1]) if mask is None else mask
    count = xp.sum(mask, axis=(-2, -1))
    mean = xp.sum(rows, axis=-2) / count[..., None]
    square = xp.sum(xp.vecdot(rows, rows), axis=-1)
    size = rows.shape[-1] * count

    centred, tau = _centred(rows, mean, mask), 2 * square / size
    n_rows, p = rows.shape[-2:]
    in_singles = quick and n_rows > 2 * (p + 1) and is_safe_in_singles(tau, n_rows)
    find = _leading if in_singles else _principal
    variances, basis, scores, leading = find(centred, count, square, n_components)
    used, deviations = _capped_deviations(variances, n_components)
    inducing = leading[..., : deviations.shape[-1]] / deviations[..., None, :]
    responses = xp.concat([scores, mask], axis=-1)
    mean_square = _mean_square(mean, basis, size)
    if in_singles:
        inducing, responses = cast(inducing, "float32"), cast(responses, "float32")
        solve: Callable[..., FixedPointSolution] = solve_in_one_factoring
    else:
        solve = partial(solve_at_fixed_point, correct=dtype == "float64")
    least_squares = partial(solve, responses=responses, mean_square=mean_square, tau=tau)
    n_layers = min(n_layers, inducing.shape[-1])
    layers = list(_layers(inducing, used, n_layers, mask, least_squares))
    if dtype == "float32" and len(basis) == 2:
        basis = [basis[0] @ basis[1]]  # the factors cancel too much for single precision
    return Branch(
        mean=mean,
        basis=[packed(factor, dtype) for factor in basis],
        deviations=packed(deviations, dtype),
        inducing=packed(inducing, dtype),
        coefficients=xp.stack([cast(folded, dtype) for folded, _ in layers], axis=-3),
        regularization=xp.stack([regularization for _, regularization in layers], axis=-1),
        n_components=int(used) if used.ndim == 0 else used,
    )


def layer_width_scale(n_components: Any, layer: int, like: Array) -> Array:
    """Return ``1/sqrt(n - l)`` for the coordinates that layer l (from 0) uses, 0 for the others.

    The last axis of `like` has the n - l coordinates of the widest branch of a stack.
    """
    xp = namespace_of(like)
    if isinstance(n_components, int):
        return max(n_components - layer, 1) ** -0.5
    width = xp.clip(n_components - layer, min=0)[..., None, None]
    column = xp.arange(like.shape[-1], device=like.device)
    scale = cast(xp.clip(width, min=1), "float64") ** -0.5
    return xp.astype(xp.where(column < width, scale, xp.zeros_like(scale)), like.dtype)


def _centred(rows: Array, mean: Array, mask: Array) -> Array:
    centred = rows - mean[..., None, :]
    return centred * mask if rows.ndim > 2 else centred


_Directions = tuple[Array, list[Array], Array, Array]


def _leading(centred: Array, count: Array, square: Array, n_components: int) -> _Directions:
    """Do as `_principal`, in the coordinates of the rows: only leading scores are turned."""
    xp = namespace_of(centred)
    p = centred.shape[-1]
    products = xp.matrix_transpose(centred) @ centred
    if isinstance(products, np.ndarray):
        values, vectors = eigh(products, subset_by_index=[max(0, p - n_components), p - 1])
    else:
        values, vectors = xp.linalg.eigh(products)
    values, vectors = xp.flip(values, axis=-1), xp.flip(vectors, axis=-1)
    values, vectors = values[:n_components], vectors[:, :n_components]
    floor = centred.shape[-2] * EPSILON * values[0] + SAME_POINT * square
    values = xp.where(values > floor, values, xp.zeros_like(values))
    return values / xp.clip(count - 1, min=1), [], centred, centred @ vectors


def _principal(centred: Array, count: Array, square: Array, n_components: int) -> _Directions:
    """Return variances (descending), basis V and scores of all directions of non-zero variance.

    The leading of the scores come a second time.
    """
    xp = namespace_of(centred)
    n, p = centred.shape[-2:]
    transposed = xp.matrix_transpose(centred)
    products = transposed @ centred if p <= n else centred @ transposed
    if p <= n and _prefers_products(centred, n_components):
        found = leading_eigenvectors(products, n_components)
        if found is not None:  # behind the leading directions any others do as well
            basis = completed_basis(found[1])
            scores = centred @ basis
            return found[0] / xp.clip(count - 1, min=1)[..., None], [basis], scores, scores
    values, vectors = xp.linalg.eigh(products)
    values, vectors = xp.flip(values, axis=-1), xp.flip(vectors, axis=-1)
    floor = max(n, p) * EPSILON * values[..., 0] + SAME_POINT * square
    values = xp.where(values > floor[..., None], values, xp.zeros_like(values))
    rank = max(1, int(xp.max(_count_positive(values))))
    values, vectors = values[..., :rank], vectors[..., :rank]
    variances = values / xp.clip(count - 1, min=1)[..., None]
    if p <= n:
        scores = centred @ vectors
        return variances, [vectors], scores, scores
    singular = xp.sqrt(values)[..., None, :]
    inverse = 1 / xp.where(singular > 0, singular, xp.full_like(singular, xp.inf))
    scores = vectors * singular
    return variances, [transposed, vectors * inverse], scores, scores


def _prefers_products(rows: Array, n_components: int) -> bool:
    """Return whether some leading eigenvectors are found sooner than all of them."""
    return is_accelerated(rows) and n_components < N_LEADING < rows.shape[-1] // 4


def _count_positive(values: Array) -> Array:
    xp = namespace_of(values)
    return xp.sum(xp.astype(values > 0, xp.int64), axis=-1)


def _capped_deviations(variances: Array, n_components: int) -> tuple[Array, Array]:
    xp = namespace_of(variances)
    used = xp.clip(_count_positive(variances), max=n_components)
    variances = variances[..., : max(1, int(xp.max(used)))]
    column = xp.arange(variances.shape[-1], device=variances.device)
    unused = column >= used[..., None]
    return used, xp.sqrt(xp.where(unused, xp.full_like(variances, xp.inf), variances))


def _mean_square(mean: Array, basis: list[Array], size: Array) -> Any:
    """Return the map ``B -> ‖(K + λI)^{-1} Y‖² / (pN)`` for ``Y = (scores) V^T + 1 μ^T``."""
    xp = namespace_of(mean)
    along = mean[..., None, :]  # becomes μ^T V
    for factor in basis:
        along = along @ factor
    length = xp.vecdot(mean, mean)

    def mean_square(solution: Array) -> Array:
        image, ones = solution[..., :-1], solution[..., -1:]
        along_mean = xp.astype(along, solution.dtype)
        cross = xp.sum((xp.matrix_transpose(ones) @ image) * along_mean, axis=(-2, -1))
        total = xp.sum(xp.vecdot(image, image), axis=-1) + 2 * cross
        return xp.clip(total + length * xp.sum(ones * ones, axis=(-2, -1)), min=0.0) / size

    return mean_square


def _layers(
    inducing: Array,
    used: Array,
    n_layers: int,
    mask: Array,
    least_squares: Callable[..., FixedPointSolution],
) -> Iterator[tuple[Array, Array]]:
    """Solve each layer at its own λ*; the search of one layer starts where the last one ended."""
    xp = namespace_of(inducing)
    start = None
    for layer in range(n_layers):
        whitened = inducing[..., : inducing.shape[-1] - layer]
        whitened = whitened * layer_width_scale(used if used.ndim else int(used), layer, whitened)
        kernel = _without_padding(gaussian_kernel(whitened), mask)
        solution = least_squares(kernel, start=start)
        start = solution.error, solution.slope
        sums = solution.coefficients[..., -1:]
        folded = xp.concat([solution.coefficients, xp.abs(sums)], axis=-1)
        if used.ndim and layer:  # in a stack, some branches may have fewer layers
            folded = folded * cast(used > layer, "float64")[..., None, None]
        yield folded, solution.regularization


def _without_padding(kernel: Array, mask: Array) -> Array:
    """Cut padded rows off from the others: their kernel row becomes a row of the identity."""
    xp = namespace_of(kernel)
    if mask.ndim == 2:  # a single branch has no padding
        return kernel
    identity = xp.eye(kernel.shape[-1], dtype=kernel.dtype, device=kernel.device)
    return kernel * mask * xp.matrix_transpose(mask) + identity * (1 - mask)
