"""Branches of different sizes as one padded stack, so that a GPU works on all of them at once.

Padding changes nothing: a padded row has zero coefficients, a padded coordinate is zero
everywhere, and a padded layer has a zero sum of weights, hence no image. A padded centre is zero;
whitened rows have mean square 1, so some row has an exponent of -1/2 at least and the padded one,
whose exponent is 0, cannot push them all below the smallest float.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sfumato.hulls.branch import Branch, fit_branch
from sfumato.kernels.arrays import Array, cast, namespace_of

__all__ = ["chunks_for_stacking", "fit_stacked", "stack_branches"]

# Largest stack of kernel matrices (float64) that is made at once.
STACK_BYTES = 2 * 2**30


def chunks_for_stacking(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Group branch numbers, similar sizes together, so that no stack passes `STACK_BYTES`."""
    chunk: list[int] = []
    for number in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        largest = sizes[chunk[0]] if chunk else sizes[number]
        if chunk and (len(chunk) + 1) * largest**2 * 8 > STACK_BYTES:
            yield chunk
            chunk = []
        chunk.append(number)
    yield chunk


def fit_stacked(groups: Sequence[Array], **parameters: Any) -> list[Branch]:
    """Fit one branch per group of rows, all in one stack; the same as `fit_branch` on each."""
    xp = namespace_of(groups[0])
    largest = max(rows.shape[0] for rows in groups)
    stack = xp.stack([_padded(cast(rows, "float64"), (largest, None)) for rows in groups])
    ones = [xp.ones_like(cast(rows[:, :1], "float64")) for rows in groups]
    mask = xp.stack([_padded(column, (largest, None)) for column in ones])
    fitted = fit_branch(stack, mask=mask, **parameters)
    return [_unstacked(fitted, i, rows.shape[0]) for i, rows in enumerate(groups)]


def stack_branches(branches: Sequence[Branch]) -> Branch:
    """Join fitted branches into one stacked branch with a leading dimension."""
    xp = namespace_of(branches[0]["mean"])
    n_rows = max(b["inducing"].shape[0] for b in branches)
    n = max(b["inducing"].shape[1] for b in branches)
    rank = max(b["coefficients"].shape[2] for b in branches) - 2
    n_layers = max(b["coefficients"].shape[0] for b in branches)
    bases = [_one_factor(b["basis"]) for b in branches]
    counts = [b["n_components"] for b in branches]
    mean = xp.stack([b["mean"] for b in branches])
    return Branch(
        mean=mean,
        basis=[xp.stack([_padded(v, (None, rank)) for v in bases])],
        deviations=xp.stack([_padded(b["deviations"], (n,), xp.inf) for b in branches]),
        inducing=xp.stack([_padded(b["inducing"], (n_rows, n)) for b in branches]),
        coefficients=xp.stack([_padded_coefficients(b, n_layers, n_rows, rank) for b in branches]),
        regularization=xp.stack([_padded(b["regularization"], (n_layers,)) for b in branches]),
        n_components=xp.asarray(counts, device=mean.device),
    )


def _unstacked(stack: Branch, i: int, n_rows: int) -> Branch:
    n_components = int(stack["n_components"][i])
    width, depth = max(n_components, 1), stack["coefficients"].shape[1]
    n_layers = min(depth, width)
    # Copies, so that one branch does not keep the whole stack in memory.
    return Branch(
        mean=_copy(stack["mean"][i, :]),
        basis=[_copy(factor[i, ...]) for factor in _cut_rows(stack["basis"], n_rows)],
        deviations=_copy(stack["deviations"][i, :width]),
        inducing=_copy(stack["inducing"][i, :n_rows, :width]),
        coefficients=_copy(stack["coefficients"][i, :n_layers, :n_rows, :]),
        regularization=_copy(stack["regularization"][i, :n_layers]),
        n_components=n_components,
    )


def _cut_rows(basis: list[Array], n_rows: int) -> list[Array]:
    """Drop the padded rows of a factored basis (centred rows, then their mixing)."""
    if len(basis) == 1:
        return basis
    return [basis[0][..., :n_rows], basis[1][..., :n_rows, :]]


def _copy(x: Array) -> Array:
    return namespace_of(x).asarray(x, copy=True)


def _one_factor(basis: list[Array]) -> Array:
    return basis[0] if len(basis) == 1 else basis[0] @ basis[1]


def _padded_coefficients(branch: Branch, n_layers: int, n_rows: int, rank: int) -> Array:
    xp = namespace_of(branch["mean"])
    image = _padded(branch["coefficients"][:, :, :-2], (n_layers, n_rows, rank))
    sums = _padded(branch["coefficients"][:, :, -2:], (n_layers, n_rows, None))
    return xp.concat([image, sums], axis=-1)


def _padded(x: Array, shape: tuple[int | None, ...], value: float = 0.0) -> Array:
    """Lengthen the axes of `x` to `shape` (None: as it is) with a constant."""
    xp = namespace_of(x)
    for axis, length in enumerate(shape):
        if length is not None and length > x.shape[axis]:
            missing = list(x.shape)
            missing[axis] = length - x.shape[axis]
            filler = xp.full(tuple(missing), value, dtype=x.dtype, device=x.device)
            x = xp.concat([x, filler], axis=axis)
    return x
