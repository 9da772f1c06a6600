"""Distances from many points to many branches: all of them, or only where they can matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import (
    Array,
    cast,
    clip_to_finite,
    is_accelerated,
    like,
    namespace_of,
    to_numpy,
)
from sfumato.core.parallel import map_in_parallel
from sfumato.models.hulls.branch import Branch, fit_branch
from sfumato.models.hulls.evaluation import coarse_branch, distance, image

BATCH_ROWS = 512
SIMILAR = 0.75  # of the largest of a stack: smaller branches go to another
# Largest array of kernel values that a batch of rows makes on an accelerator.
BATCH_BYTES = 2**30
# Pruned search: coordinates of the coarse estimate, and how many times the least distance a branch
# may be away to be looked at more closely. Found by experiment; nothing certifies them.
COARSE_COORDINATES = 64
COARSE_MARGIN = 1.3
LAYER_MARGIN = 1.1


def fit_branches(
    groups: Sequence[Array],
    *,
    n_jobs: int | None = None,
    verbose: bool = False,
    stacked: bool | None = None,
    **parameters: Any,
) -> list[Branch]:
    """Fit one branch per group of rows: one after the other on CPUs, stacked on an accelerator."""
    progress = "Fitting branches" if verbose else None
    if not (is_accelerated(groups[0]) if stacked is None else stacked):
        return map_in_parallel(
            partial(fit_branch, **parameters), groups, n_jobs=n_jobs, progress=progress
        )
    chunks = list(chunks_for_stacking([rows.shape[0] for rows in groups]))
    task = partial(_fit_chunk, groups, parameters)
    fitted = map_in_parallel(task, chunks, n_jobs=1, progress=progress)
    found = {
        i: b
        for chunk, part in zip(chunks, fitted, strict=True)
        for i, b in zip(chunk, part, strict=True)
    }
    return [found[i] for i in range(len(groups))]


def branch_distances(
    branches: Sequence[Branch],
    rows: Array,
    *,
    n_jobs: int | None = None,
    stacked: bool | None = None,
) -> Array:
    """Return the distance from every row to its image under every branch, shape (M, S)."""
    branches, rows, _ = _with_common_origin(branches, rows)
    if is_accelerated(rows) if stacked is None else stacked:
        return _stacked_distances(branches, rows)
    return _in_batches(partial(_to_each, branches), rows, n_jobs=n_jobs)


def pruned_branch_distances(
    branches: Sequence[Branch], rows: Array, *, n_jobs: int | None = None
) -> NDArray[np.float64]:
    """Return the distances to the branches that can be the nearest, inf for the others, (M, S).

    A branch is evaluated under its first layer if its coarse distance is within `COARSE_MARGIN` of
    the least, and under all layers if that distance is within `LAYER_MARGIN` of the least.
    """
    branches, rows, _ = _with_common_origin(branches, rows)
    near = partial(_where_near, branches, rows, n_jobs=n_jobs)
    leading = [coarse_branch(branch, COARSE_COORDINATES) for branch in branches]
    coarse = to_numpy(_in_batches(partial(_to_each, leading), rows, n_jobs=n_jobs))
    first = near(coarse, COARSE_MARGIN, n_layers=1)
    return np.minimum(first, near(first, LAYER_MARGIN, n_layers=None))


def evaluate(
    branch: Branch, function: Callable[[Branch, Array], Array], rows: Array, *, gives_rows: bool
) -> Array:
    """Apply a function of `evaluation` to the rows in batches; `gives_rows` if it gives images."""
    (moved,), shifted, origin = _with_common_origin([branch], rows)
    answer = _in_batches(partial(function, moved), shifted, n_jobs=None)
    return answer + origin if gives_rows else answer


def nearest_images(branches: Sequence[Branch], numbers: NDArray[np.intp], rows: Array) -> Array:
    """Return the image of each row under the branch whose number is given for it."""
    xp = namespace_of(branches[0]["mean"])
    rows = like(branches[0]["mean"], rows)
    order, parts = [], []
    for number in np.unique(numbers):
        (where,) = np.nonzero(numbers == number)
        chosen = xp.take(rows, like(rows, where), axis=0)
        parts.append(evaluate(branches[number], image, chosen, gives_rows=True))
        order.append(where)
    back = np.argsort(np.concatenate(order))
    return xp.take(xp.concat(parts, axis=0), like(rows, back), axis=0)


def _with_common_origin(
    branches: Sequence[Branch], rows: Array
) -> tuple[list[Branch], Array, Array]:
    """Move branches and rows to an origin amid the branches and to the precision of the model.

    The shift is made in double precision, so that an offset of the data costs no digits.
    """
    means = [branch["mean"] for branch in branches]
    single = branches[0]["inducing"].dtype == namespace_of(means[0]).float32
    precision = "float32" if single else "float64"
    origin = sum(means[1:], start=means[0]) / len(means)
    away = cast(like(origin, rows), "float64") - origin
    shifted = cast(clip_to_finite(away, precision), precision)
    moved: list[Branch] = [{**b, "mean": cast(b["mean"] - origin, precision)} for b in branches]
    return moved, shifted, cast(origin, precision)


def _in_batches(
    task: Callable[[Array], Array], rows: Array, *, n_jobs: int | None, batch_rows: int = BATCH_ROWS
) -> Array:
    """Apply `task` to batches of rows and join the answers; this bounds the memory."""
    n = rows.shape[0]
    batches = [rows[i : min(i + batch_rows, n), :] for i in range(0, n, batch_rows)]
    answers = map_in_parallel(task, batches, n_jobs=n_jobs)
    return namespace_of(answers[0]).concat(answers, axis=0)


def _fit_chunk(
    groups: Sequence[Array], parameters: dict[str, Any], chunk: list[int]
) -> list[Branch]:
    return fit_stacked([groups[i] for i in chunk], **parameters)


def _stacked_distances(branches: Sequence[Branch], rows: Array) -> Array:
    """Return the distances to stacks of branches of similar size, in the order of the branches."""
    xp = namespace_of(rows)
    groups = list(_similar([branch["inducing"].shape[0] for branch in branches]))
    found = []
    for numbers in groups:
        stack = stack_branches([branches[i] for i in numbers])
        size = 8 * len(numbers) * stack["inducing"].shape[1]
        batch_rows = max(16, BATCH_BYTES // size)
        found.append(_in_batches(partial(_to_stack, stack), rows, n_jobs=1, batch_rows=batch_rows))
    back = np.argsort(np.concatenate(groups))
    return xp.take(xp.concat(found, axis=1), like(rows, back), axis=1)


def _similar(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Group branch numbers so that none is padded to more than a third above its own size."""
    group: list[int] = []
    for number in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        if group and sizes[number] < SIMILAR * sizes[group[0]]:
            yield group
            group = []
        group.append(number)
    yield group


def _to_stack(stack: Branch, rows: Array) -> Array:
    return namespace_of(rows).matrix_transpose(distance(stack, rows))


def _to_each(branches: Sequence[Branch], rows: Array) -> Array:
    return namespace_of(rows).stack([distance(branch, rows) for branch in branches], axis=1)


def _where_near(
    branches: Sequence[Branch],
    rows: Array,
    known: NDArray[Any],
    margin: float,
    *,
    n_layers: int | None,
    n_jobs: int | None,
) -> NDArray[np.float64]:
    """Evaluate each branch at the rows to which it is within `margin` of their nearest."""
    near = (known <= margin * known.min(axis=1, keepdims=True)) & (known < np.inf)
    items = [
        (branch, np.nonzero(column)[0]) for branch, column in zip(branches, near.T, strict=True)
    ]
    answers = map_in_parallel(partial(_at_some, rows, n_layers), items, n_jobs=n_jobs)
    found = np.full(known.shape, np.inf)
    for number, ((_, where), answer) in enumerate(zip(items, answers, strict=True)):
        found[where, number] = answer
    return found


def _at_some(
    rows: Array, n_layers: int | None, item: tuple[Branch, NDArray[np.intp]]
) -> NDArray[np.float64]:
    branch, where = item
    if not len(where):
        return np.empty(0)
    chosen = namespace_of(rows).take(rows, like(rows, where), axis=0)
    task = partial(distance, branch, n_layers=n_layers)
    return to_numpy(_in_batches(task, chosen, n_jobs=1))


# Branches of different sizes as one padded stack, so that a GPU works on all of them at once ------

ALIGNED = 8  # numbers
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
    n_rows = _aligned(max(b["inducing"].shape[0] for b in branches))
    n = max(b["inducing"].shape[1] for b in branches)
    rank = _aligned(max(b["coefficients"].shape[2] for b in branches)) - 2
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


def _aligned(length: int) -> int:
    """Lengthen rows to whole words of an accelerator, whose products are slower between them."""
    return -(-length // ALIGNED) * ALIGNED


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
