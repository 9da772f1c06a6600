r"""Branches of hulls as plain arrays: their fit, images and distances, and how rows are cut.

A branch is the deep kernel affine hull of one set of rows Y with mean μ. Its layer l (from 0) maps
a point through

.. math:: A(y) = μ + V \frac{k(y)^T B_V}{k(y)^T B_1},
          \qquad B = (K + λ^* I)^{-1} [\,(Y - 1μ^T) V,\; 1\,],

where V are all principal directions of non-zero variance and the kernel sees the first n - l
principal coordinates, whitened. The solve is done once, at fit time; a prediction is two matrix
products per layer, and the input of the next layer is a slice of the image.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import (
    Array,
    cast,
    clip_to_finite,
    contiguous,
    is_accelerated,
    like,
    namespace_of,
    to_numpy,
)
from sfumato.core.constraints import list_of, numbers, record, refuse, whole
from sfumato.core.parallel import map_in_parallel
from sfumato.models.least_squares import (
    N_LEADING,
    completed_basis,
    gaussian_kernel,
    leading_eigenvectors,
    relative_gaussian_kernel,
    solve_at_fixed_point,
)

EPSILON = 2.0**-52
# Rows that differ by less than this share of their length are taken for one point.
SAME_POINT = 1e-24
# The weights of a point are h_i / Σh. Σh is positive near the data but, against Theorem 2, not
# everywhere: where it is not clearly above its own rounding the point has no image.
CLEARLY_POSITIVE = 1e-6
BATCH_ROWS = 512
SIMILAR = 0.75  # of the largest of a stack: smaller branches go to another
# Largest array of kernel values that a batch of rows makes on an accelerator.
BATCH_BYTES = 2**30
ALIGNED = 8  # numbers: between whole words, products are slower on an accelerator
# Largest stack of kernel matrices (float64) that is made at once; quickest on an H200.
STACK_BYTES = 2**29
PARTITIONS = ("kmeans", "random")
MAX_ITERATIONS = 100
SMALL_GAIN = 1e-4
SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER = 20_000, 100


# Plain arrays of a fitted branch; a stack of branches has one more leading dimension.
Branch = dict[str, Any]
_fields = record(
    mean=numbers("d"),  # float64
    basis=list_of(numbers(None, None)),  # V (p, r), or two factors whose product it is
    deviations=numbers("n", above=0.0, most=math.inf),  # of the first coordinates; inf: not used
    inducing=numbers("N", "n"),  # whitened coordinates of the rows
    coefficients=numbers("L", "N", "r+2"),  # B_V, B_1 and |B_1|
    regularization=numbers("L", least=0.0),  # float64
    n_components=whole(most="n"),  # n of the first layer; 0 when all rows are one point
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


# Fit --------------------------------------------------------------------------------------------


def fit_branch(
    rows: Array,
    *,
    n_components: int,
    n_layers: int,
    dtype: str,
    mask: Array | None = None,
) -> Branch:
    """Fit a deep hull (Definition 3) on rows (..., N, p), or a stack of them at once.

    Subspace dimension n and number of layers L are capped by the rank of the rows. The fit is in
    double precision, what is kept in `dtype`. `mask` (..., N, 1) is zero for padding, when branches
    of different sizes are stacked.
    """
    rows = cast(rows, "float64")
    xp = namespace_of(rows)
    rows = rows if mask is None else rows * mask
    mask = xp.ones_like(rows[..., :1]) if mask is None else mask
    count = xp.sum(mask, axis=(-2, -1))
    mean = xp.sum(rows, axis=-2) / count[..., None]
    square = xp.sum(xp.vecdot(rows, rows), axis=-1)
    n_rows, p = rows.shape[-2:]
    size = p * count
    tau = 2 * square / size
    centred = rows - mean[..., None, :]
    centred = centred * mask if rows.ndim > 2 else centred

    variances, basis, scores = _directions(centred, count, square, n_components)
    used = xp.clip(xp.sum(xp.astype(variances > 0, xp.int64), axis=-1), max=n_components)
    variances = variances[..., : max(1, int(xp.max(used)))]
    is_unused = xp.arange(variances.shape[-1], device=variances.device) >= used[..., None]
    deviations = xp.sqrt(xp.where(is_unused, xp.full_like(variances, xp.inf), variances))
    inducing = scores[..., : deviations.shape[-1]] / deviations[..., None, :]
    responses = xp.concat([scores, mask], axis=-1)
    along = mean[..., None, :]  # becomes μ^T V
    for factor in basis:
        along = along @ factor
    length = xp.vecdot(mean, mean)

    def mean_square(solution: Array) -> Array:
        """Return ``‖(K + λI)^{-1} Y‖² / (pN)`` for ``Y = (scores) V^T + 1 μ^T``."""
        image, ones = solution[..., :-1], solution[..., -1:]
        along_mean = xp.astype(along, solution.dtype)
        cross = xp.sum((xp.matrix_transpose(ones) @ image) * along_mean, axis=(-2, -1))
        total = xp.sum(xp.vecdot(image, image), axis=-1) + 2 * cross
        return xp.clip(total + length * xp.sum(ones * ones, axis=(-2, -1)), min=0.0) / size

    kept = used if used.ndim else int(used)
    coefficients, regularization, start = [], [], None
    for layer in range(min(n_layers, inducing.shape[-1])):
        whitened = inducing[..., : inducing.shape[-1] - layer]
        kernel = gaussian_kernel(whitened * layer_width_scale(kept, layer, whitened))
        if mask.ndim > 2:  # padded rows are cut off: their kernel row is one of the identity
            identity = xp.eye(n_rows, dtype=kernel.dtype, device=kernel.device)
            kernel = kernel * mask * xp.matrix_transpose(mask) + identity * (1 - mask)
        solution = solve_at_fixed_point(
            kernel, responses, mean_square, tau=tau, start=start, correct=dtype == "float64"
        )
        start = solution.error, solution.slope  # the search of the next λ* begins here
        folded = xp.concat(
            [solution.coefficients, xp.abs(solution.coefficients[..., -1:])], axis=-1
        )
        if used.ndim and layer:  # in a stack, some branches may have fewer layers
            folded = folded * cast(used > layer, "float64")[..., None, None]
        coefficients.append(cast(folded, dtype))
        regularization.append(solution.regularization)
    if dtype == "float32" and len(basis) == 2:
        basis = [basis[0] @ basis[1]]  # the factors cancel too much for single precision
    return Branch(
        mean=mean,
        basis=[contiguous(factor, dtype) for factor in basis],
        deviations=contiguous(deviations, dtype),
        inducing=contiguous(inducing, dtype),
        coefficients=xp.stack(coefficients, axis=-3),
        regularization=xp.stack(regularization, axis=-1),
        n_components=kept,
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


def _directions(
    centred: Array, count: Array, square: Array, n_components: int
) -> tuple[Array, list[Array], Array]:
    """Return variances (descending), basis V and scores, of all directions of some variance."""
    xp = namespace_of(centred)
    n, p = centred.shape[-2:]
    transposed = xp.matrix_transpose(centred)
    freedom = xp.clip(count - 1, min=1)[..., None]
    products = transposed @ centred if p <= n else centred @ transposed
    if p <= n and is_accelerated(centred) and n_components < N_LEADING < p // 4:
        # Some leading eigenvectors are found sooner than all; any others do as well behind them.
        found = leading_eigenvectors(products, n_components)
        if found is not None:
            basis = completed_basis(found[1])
            return found[0] / freedom, [basis], centred @ basis
    values, vectors = xp.linalg.eigh(products)
    values, vectors = xp.flip(values, axis=-1), xp.flip(vectors, axis=-1)
    floor = max(n, p) * EPSILON * values[..., 0] + SAME_POINT * square
    values = xp.where(values > floor[..., None], values, xp.zeros_like(values))
    rank = max(1, int(xp.max(xp.sum(xp.astype(values > 0, xp.int64), axis=-1))))
    values, vectors = values[..., :rank], vectors[..., :rank]
    if p <= n:
        return values / freedom, [vectors], centred @ vectors
    singular = xp.sqrt(values)[..., None, :]
    inverse = 1 / xp.where(singular > 0, singular, xp.full_like(singular, xp.inf))
    return values / freedom, [transposed, vectors * inverse], vectors * singular


# Images and distances of points under a branch (equations 33, 48 and 50 to 53) ------------------


def layers_of(branch: Branch, rows: Array) -> Iterator[tuple[Array, Array]]:
    """Yield, layer by layer, principal coordinates of the images, and the distances to them.

    `rows` and the stored mean share one origin. Where there is no image the distance is infinite.
    """
    xp = namespace_of(rows)
    coordinates, outside = _project(branch, rows)
    deviations, inducing = branch["deviations"], branch["inducing"]
    point, exists = coordinates, True
    for layer in range(int(branch["coefficients"].shape[-3])):
        width = inducing.shape[-1] - layer
        centres = inducing[..., :width]
        scale = layer_width_scale(branch["n_components"], layer, centres)
        whitened = point[..., :width] / deviations[..., None, :width] * scale
        kernel = relative_gaussian_kernel(whitened, centres * scale)
        sums = kernel @ branch["coefficients"][..., layer, :, :]
        exists = exists & (sums[..., -2] > CLEARLY_POSITIVE * sums[..., -1])
        divisor = xp.where(exists, sums[..., -2], xp.full_like(outside, xp.inf))
        point = sums[..., :-2] / divisor[..., None]
        away = coordinates - point
        length = xp.sqrt(xp.vecdot(away, away) + outside)
        yield point, xp.where(exists, length, xp.full_like(length, xp.inf))


def _project(branch: Branch, rows: Array) -> tuple[Array, Array]:
    """Return principal coordinates and the squared length of what lies outside their span."""
    xp = namespace_of(rows)
    centred = rows - branch["mean"][..., None, :]
    coordinates = centred
    for factor in branch["basis"]:
        coordinates = coordinates @ factor
    if branch["mean"].ndim == 1 and coordinates.shape[-1] == rows.shape[-1]:  # V is a rotation
        return coordinates, xp.zeros_like(coordinates[..., 0])
    whole, inside = xp.vecdot(centred, centred), xp.vecdot(coordinates, coordinates)
    return coordinates, xp.clip(whole - inside, min=0.0)


def distance(branch: Branch, rows: Array) -> Array:
    """Return the least distance from each row to its images under the layers."""
    xp = namespace_of(rows)
    return functools.reduce(xp.minimum, (away for _, away in layers_of(branch, rows)))


def image(branch: Branch, rows: Array, *, every_layer: bool = False) -> Array:
    """Return the image of each row under its nearest layer, the mean where there is none.

    `every_layer` returns the images under each (51), shape (M, L, p).
    """
    xp = namespace_of(rows)
    layers = list(layers_of(branch, rows))
    found, least = layers[0]
    for point, away in layers[1:]:
        found = xp.where((away < least)[..., None], point, found)
        least = xp.minimum(away, least)
    if every_layer:
        found = xp.stack([point for point, _ in layers], axis=1)
    for factor in reversed(branch["basis"]):
        found = found @ xp.matrix_transpose(factor)
    return found + branch["mean"]


def in_batches(
    task: Callable[[Array], Array],
    rows: Array,
    *,
    n_jobs: int | None = None,
    batch_rows: int = BATCH_ROWS,
    axis: int = 0,
) -> Array:
    """Apply `task` to batches of rows and join the answers; this bounds the memory."""
    n = int(rows.shape[0])
    batches = [rows[i : min(i + batch_rows, n), :] for i in range(0, n, batch_rows)]
    answers = map_in_parallel(task, batches, n_jobs=n_jobs)
    return namespace_of(answers[0]).concat(answers, axis=axis)


def answer_by_number(
    numbers: NDArray[np.intp], rows: Array, answer: Callable[[int, Array], Array]
) -> Array:
    """Return what ``answer(number, rows of that number)`` gives, in the order of the rows."""
    xp = namespace_of(rows)
    order, parts = [], []
    for number in np.unique(numbers):
        (where,) = np.nonzero(numbers == number)
        parts.append(answer(int(number), xp.take(rows, like(rows, where), axis=0)))
        order.append(where)
    back = np.argsort(np.concatenate(order))
    return xp.take(xp.concat(parts, axis=0), like(rows, back), axis=0)


def evaluate(branch: Branch, function: Callable[..., Array], rows: Array, **options: Any) -> Array:
    """Apply `image` or `weights` to the rows in batches."""
    (moved,), shifted, origin = _with_common_origin([branch], rows)
    answer = in_batches(partial(function, moved, **options), shifted)
    return answer + origin if function is image else answer


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


def _to_each(branches: Sequence[Branch], rows: Array) -> Array:
    return namespace_of(rows).stack([distance(branch, rows) for branch in branches], axis=1)


def branch_distances(
    branches: Sequence[Branch],
    rows: Array,
    *,
    n_jobs: int | None = None,
    stacked: bool | None = None,
) -> Array:
    """Return the distance from every row to its image under every branch, shape (M, S)."""
    branches, rows, _ = _with_common_origin(branches, rows)
    if not (is_accelerated(rows) if stacked is None else stacked):
        return in_batches(partial(_to_each, branches), rows, n_jobs=n_jobs)
    xp = namespace_of(rows)
    # Branches of similar size are stacked: none is padded to more than a third above its own.
    sizes = [branch["inducing"].shape[0] for branch in branches]
    groups = _group_by_size(sizes, lambda _, largest, size: size >= SIMILAR * largest)
    found = []
    for group in groups:
        stack = _stack_branches([branches[i] for i in group])
        batch_rows = max(16, BATCH_BYTES // (8 * len(group) * stack["inducing"].shape[1]))
        task = partial(distance, stack)
        found.append(in_batches(task, rows, batch_rows=batch_rows, axis=-1))
    back = np.argsort(np.concatenate(groups))
    return xp.matrix_transpose(xp.take(xp.concat(found, axis=0), like(rows, back), axis=0))


# Branches of different sizes as one padded stack, so that a GPU works on all of them at once ------


def _group_by_size(sizes: Sequence[int], fits: Callable[[int, int, int], bool]) -> list[list[int]]:
    """Group numbers from the largest size down, while ``fits(members, largest, size)``."""
    groups: list[list[int]] = []
    for number in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        if not groups or not fits(len(groups[-1]), sizes[groups[-1][0]], sizes[number]):
            groups.append([])
        groups[-1].append(number)
    return groups


def fit_branches(
    groups: Sequence[Array],
    *,
    n_jobs: int | None = None,
    stacked: bool | None = None,
    **parameters: Any,
) -> list[Branch]:
    """Fit one branch per group of rows: one after the other on CPUs, stacked on an accelerator."""
    if not (is_accelerated(groups[0]) if stacked is None else stacked):
        task = partial(fit_branch, **parameters)
        return map_in_parallel(task, groups, n_jobs=n_jobs)
    sizes = [int(rows.shape[0]) for rows in groups]
    chunks = _group_by_size(
        sizes, lambda members, largest, _: (members + 1) * largest**2 * 8 <= STACK_BYTES
    )
    stacks = (_fit_stacked([groups[i] for i in chunk], **parameters) for chunk in chunks)
    branches = [branch for stack in stacks for branch in stack]
    return [branches[i] for i in np.argsort(np.concatenate(chunks))]


def _fit_stacked(groups: Sequence[Array], **parameters: Any) -> list[Branch]:
    """Fit one branch per group of rows, all in one stack; the same as `fit_branch` on each."""
    xp = namespace_of(groups[0])
    groups = [cast(rows, "float64") for rows in groups]
    mask = _stack_rows([xp.ones_like(rows[:, :1]) for rows in groups])
    stack = fit_branch(_stack_rows(groups), mask=mask, **parameters)
    copy = partial(xp.asarray, copy=True)  # so that one branch does not keep the stack in memory
    branches = []
    for i, rows in enumerate(groups):
        n_rows, n_components = rows.shape[0], int(stack["n_components"][i])
        width = max(n_components, 1)
        n_layers = min(stack["coefficients"].shape[1], width)
        basis = stack["basis"]
        if len(basis) == 2:  # centred rows, then their mixing: padded rows are dropped
            basis = [basis[0][..., :n_rows], basis[1][..., :n_rows, :]]
        branches.append(
            Branch(
                mean=copy(stack["mean"][i, :]),
                basis=[copy(factor[i, ...]) for factor in basis],
                deviations=copy(stack["deviations"][i, :width]),
                inducing=copy(stack["inducing"][i, :n_rows, :width]),
                coefficients=copy(stack["coefficients"][i, :n_layers, :n_rows, :]),
                regularization=copy(stack["regularization"][i, :n_layers]),
                n_components=n_components,
            )
        )
    return branches


def _stack_rows(groups: Sequence[Array]) -> Array:
    """Return groups of rows as one array, padded to the longest; a single one is not copied."""
    if len(groups) == 1:
        return groups[0][None, ...]
    longest = max(rows.shape[0] for rows in groups)
    return namespace_of(groups[0]).stack([_padded(rows, (longest, None)) for rows in groups])


def _stack_branches(branches: Sequence[Branch]) -> Branch:
    """Join fitted branches into one stacked branch with a leading dimension."""
    xp = namespace_of(branches[0]["mean"])
    n_rows = max(b["inducing"].shape[0] for b in branches)
    rank = max(b["coefficients"].shape[2] for b in branches)
    n_rows, rank = -(-n_rows // ALIGNED) * ALIGNED, -(-rank // ALIGNED) * ALIGNED - 2
    n = max(b["inducing"].shape[1] for b in branches)
    n_layers = max(b["coefficients"].shape[0] for b in branches)
    mean = xp.stack([b["mean"] for b in branches])
    coefficients = []
    for b in branches:
        image = _padded(b["coefficients"][:, :, :-2], (n_layers, n_rows, rank))
        sums = _padded(b["coefficients"][:, :, -2:], (n_layers, n_rows, None))
        coefficients.append(xp.concat([image, sums], axis=-1))
    bases = [
        b["basis"][0] if len(b["basis"]) == 1 else b["basis"][0] @ b["basis"][1] for b in branches
    ]
    return Branch(
        mean=mean,
        basis=[xp.stack([_padded(v, (None, rank)) for v in bases])],
        deviations=xp.stack([_padded(b["deviations"], (n,), xp.inf) for b in branches]),
        inducing=xp.stack([_padded(b["inducing"], (n_rows, n)) for b in branches]),
        coefficients=xp.stack(coefficients),
        regularization=xp.stack([_padded(b["regularization"], (n_layers,)) for b in branches]),
        n_components=xp.asarray([b["n_components"] for b in branches], device=mean.device),
    )


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


# Rows cut into groups: by class, by k-means (equation 58) or at random ---------------------------


@dataclass
class RowGroups(Sequence[Array]):
    """Groups of rows, each copied only while it is in use."""

    rows: Array
    places: Sequence[NDArray[np.intp]]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: Any) -> Array:
        places = like(self.rows, self.places[number])
        return namespace_of(self.rows).take(self.rows, places, axis=0)


def cut_rows(
    rows: Array,
    codes: NDArray[np.intp] | None = None,
    *,
    branch_size: int,
    partition: str = "kmeans",
    random_state: np.random.RandomState,
    stacked: bool | None = None,
) -> tuple[RowGroups, NDArray[np.intp]]:
    """Cut the rows of each class into ``ceil(N / branch_size)`` branches at most.

    Returns the branches and the class of each. A cluster that ran empty is dropped; "random" cuts a
    random order of the rows into equal parts. On an accelerator all classes are cut together,
    unless they are too long for one stack.
    """
    codes = np.zeros(int(rows.shape[0]), dtype=np.intp) if codes is None else codes
    classes = np.unique(codes)
    per_class = RowGroups(rows, [np.nonzero(codes == code)[0] for code in classes])
    sizes = [len(places) for places in per_class.places]
    n_clusters = [math.ceil(size / branch_size) for size in sizes]
    cuts = [np.zeros(size, dtype=np.intp) for size in sizes]
    many = [i for i, n in enumerate(n_clusters) if n > 1]
    if stacked is None:
        stacked = is_accelerated(rows) and max(sizes) <= SAMPLE_ROWS
    together = [many] if stacked and many and partition == "kmeans" else [[i] for i in many]
    for group in together:
        if partition == "kmeans":
            members = [per_class[i] for i in group]
            found = _kmeans(members, [n_clusters[i] for i in group], random_state)
        else:
            (i,) = group
            found = [random_state.permutation(np.arange(sizes[i]) % n_clusters[i])]
        for i, cut in zip(group, found, strict=True):
            cuts[i] = cut
    inside = [[np.nonzero(cut == s)[0] for s in range(cut.max() + 1)] for cut in cuts]
    places = [of[at] for of, parts in zip(per_class.places, inside, strict=True) for at in parts]
    return RowGroups(rows, places), np.repeat(classes, [len(parts) for parts in inside])


def _kmeans(
    groups: list[Array], n_clusters: list[int], random_state: np.random.RandomState
) -> list[NDArray[np.intp]]:
    """Return the cluster of each row of each group, by Lloyd's algorithm from k-means++ starts.

    Groups go on together, padded to one length and number of clusters, where the rows are. Only a
    partition is wanted, so single precision around the mean is enough, and of very many rows a
    sample finds the centres: the time then stays linear in the rows.
    """
    xp = namespace_of(groups[0])
    most = max(n_clusters)
    limit = max(SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER * most)
    everything, samples, draws = [], [], np.zeros((len(groups), most))
    for i, (group, n) in enumerate(zip(groups, n_clusters, strict=True)):
        rows = cast(group, "float64")
        rows = cast(rows - xp.mean(rows, axis=0), "float32")
        everything.append(rows)
        if rows.shape[0] > limit:
            places = random_state.permutation(int(rows.shape[0]))[:limit]
            rows = xp.take(rows, like(rows, places), axis=0)
        samples.append(rows)
        draws[i, 0] = random_state.randint(rows.shape[0])  # a first start,
        draws[i, 1:n] = random_state.uniform(size=n - 1)  # then one share per start
    sizes = like(samples[0], np.array([int(rows.shape[0]) for rows in samples]))
    rows = _stack_rows(samples)
    longest = rows.shape[1]
    is_row = xp.arange(longest, device=rows.device) < sizes[:, None]
    shares = like(rows, draws)
    clusters = xp.arange(most, device=rows.device)
    is_cluster = clusters < like(rows, np.array(n_clusters))[:, None]

    # k-means++: chances of rows in proportion to their squared distances.
    lengths = xp.vecdot(rows, rows)
    flat = xp.reshape(rows, (len(groups) * longest, rows.shape[2]))
    first = longest * xp.arange(len(groups), device=rows.device)
    starts = [xp.take(flat, first + xp.astype(shares[:, 0], xp.int64), axis=0)]
    nearest = xp.where(is_row, math.inf, xp.zeros_like(rows[:, :, 0]))
    for step in range(1, most):
        last_start = starts[-1][:, None, :]
        away = (
            lengths
            + xp.vecdot(last_start, last_start)
            - 2 * (rows @ xp.matrix_transpose(last_start))[:, :, 0]
        )
        nearest = xp.minimum(nearest, xp.clip(away, min=0.0))
        cumulative = xp.cumulative_sum(cast(nearest, "float64"), axis=1)
        drawn = shares[:, step] * cumulative[:, -1]
        below = xp.sum(xp.astype(cumulative <= drawn[:, None], xp.int64), axis=1)
        starts.append(xp.take(flat, first + xp.minimum(below, sizes - 1), axis=0))
    centres = xp.stack(starts, axis=1)

    def squares(of: Array, centres: Array) -> Array:
        """Return squared distances but for the squares of the rows; infinite to no cluster."""
        offset = xp.vecdot(centres, centres)
        offset = xp.where(is_cluster, offset, xp.full_like(offset, math.inf))
        return offset[:, None, :] - 2 * (of @ xp.matrix_transpose(centres))

    total = xp.sum(cast(lengths, "float64"), axis=1)
    last = xp.full(sizes.shape, math.inf, dtype=xp.float64, device=rows.device)
    for _ in range(MAX_ITERATIONS):
        found = squares(rows, centres)
        least = xp.where(is_row, cast(xp.min(found, axis=2), "float64"), 0.0)
        inertia = total + xp.sum(least, axis=1)
        gains = last - inertia > SMALL_GAIN * inertia
        if not bool(xp.any(gains)):
            break
        last = inertia
        own = (xp.argmin(found, axis=2)[:, :, None] == clusters) & is_row[:, :, None]
        members = cast(own, "float32")
        counts = xp.sum(members, axis=1)[:, :, None]
        # A cluster without members keeps its centre and may win rows back.
        moved = xp.matrix_transpose(members) @ rows / xp.clip(counts, min=1.0)
        centres = xp.where(gains[:, None, None] & (counts > 0), moved, centres)
    if longest < max(each.shape[0] for each in everything):
        rows = _stack_rows(everything)
    found = to_numpy(xp.argmin(squares(rows, centres), axis=2))
    cuts = [each[: group.shape[0]] for each, group in zip(found, groups, strict=True)]
    return [np.unique(each, return_inverse=True)[1].astype(np.intp) for each in cuts]
