"""Layers and branches of membership mappings as plain arrays (Algorithms 1 and 2).

One mapping is kernel ridge regression on its inducing points. With the kernel of unit variance,
``A = K_xaᵀ K_xa`` and ``B = K_aa = L Lᵀ``, equation (48) reads::

    yhat(x) = g(x) (A + lambda B)⁻¹ K_xaᵀ Y,        lambda = tau(M, 1) + 1 / (sigma² beta),

so that sigma² cancels but for lambda. With ``H = L⁻¹ K_xaᵀ``, ``H Hᵀ = U diag(l) Uᵀ`` and
``Z = Uᵀ H Y`` the error of the mapping at any lambda is a sum over M numbers::

    |Y - Yhat|² = |Y|² - sum_m |Z_m|² (2 / (l_m + lambda) - l_m / (l_m + lambda)²),

which makes each step of the loop for beta (steps 16 to 19) cost O(M).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.core.arrays import Array, cast, clip_to_finite, like, namespace_of, packed
from sfumato.core.constraints import MAX_FLOAT32, listed, numbers, real, record, refuse
from sfumato.models.hull_search import answer_by_number, in_batches

NU = 2.1  # degrees of freedom (52)
LLOYD_ITERATIONS = 10
JITTER, MAX_JITTER = 1e-10, 1e-2
# Where the search of the first layer begins, as a place in the list of sizes: 0.9**8 = 0.43.
# With many inputs all points are far apart and tau is large at once.
FIRST_GUESS, FEW_INPUTS = 8, 30
BETA_TOLERANCE = 1e-10
MAX_BETA_STEPS = 1000
MIN_EIGENVALUE = 1e-12  # of the largest; below it a direction counts as constant
BATCH_ROWS = 1024
SEEDS = 2**31 - 1

# Inducing points: centroids of k-means, and how many of them (Algorithm 1, steps 3 to 8) ---------


class Inducing(NamedTuple):
    """Inducing points a with ``K_aa = L Lᵀ``, ``H = L⁻¹ K_xaᵀ`` and ``tau(M, 1)`` (54)."""

    points: Array  # M x n
    inverse_factor: Array  # L⁻¹, M x M
    whitened: Array  # H, M x N
    tau: float


def cross_kernel(x: Array, centres: Array) -> Array:
    """Return ``exp(-|x_i - a_j|² / 2)``; the weights w of (17) are in the coordinates."""
    xp = namespace_of(x)
    exponents = x @ xp.matrix_transpose(centres)
    exponents -= xp.vecdot(centres, centres)[None, :] / 2
    exponents -= xp.vecdot(x, x)[:, None] / 2
    # Rounding may leave a hair above zero where a point meets a centre.
    return xp.exp(xp.clip(exponents, max=0.0))


def centroids(x: Array, n_points: int, seed: int) -> Array:
    """Return the centroids of k-means (51), started at random rows, the same for equal arguments.

    Half to a fifth of the rows become centroids, so that a few iterations settle them.
    """
    xp = namespace_of(x)
    order = check_random_state(seed).permutation(int(x.shape[0]))
    centres = xp.take(x, like(x, order[:n_points]), axis=0)
    clusters = xp.arange(n_points, device=x.device)[:, None]
    last = None
    for _ in range(LLOYD_ITERATIONS):
        # |x|² is the same for all centres.
        distances = xp.vecdot(centres, centres)[None, :] / 2 - x @ xp.matrix_transpose(centres)
        nearest = xp.argmin(distances, axis=1)
        if last is not None and bool(xp.all(nearest == last)):
            break
        last = nearest
        members = xp.astype(clusters == nearest[None, :], x.dtype)
        counts = xp.sum(members, axis=1)[:, None]
        centres = xp.where(counts > 0, members @ x / xp.clip(counts, min=1.0), centres)
    return centres


def sizes_below(max_points: int) -> list[int]:
    """List ``M_0 = max_points, M_{i+1} = ceil(0.9 M_i)``, down to 1.

    As printed the list never gets below 9, since ``ceil(0.9 · 9) = 9``: from there on go down by 1.
    """
    sizes = [max_points]
    while sizes[-1] > 1:
        sizes.append(min(math.ceil(0.9 * sizes[-1]), sizes[-1] - 1))
    return sizes


def choose_inducing(
    x: Array, scale: Array, max_points: int, *, kappa: float, seed: int, first_layer: bool
) -> Inducing:
    """Return the most inducing points, down the list of `sizes_below`, with ``tau >= kappa``.

    `x` are the inputs around their mean; `scale` the factors that give the kernel its weights. As
    in (51), k-means sees the inputs without those weights.

    The printed loop walks down the list; tau grows as M falls, so that galloping away from a guess
    and halving the gap finds the same place after a few trials.
    """
    sizes = sizes_below(max_points)
    tried: dict[int, Inducing] = {}

    def passes(place: int) -> bool:
        tried[place] = _inducing(x, scale, sizes[place], seed)
        return tried[place].tau >= kappa or place == len(sizes) - 1

    far = first_layer and x.shape[1] <= FEW_INPUTS
    guess, step = min(FIRST_GUESS if far else 0, len(sizes) - 1), 1
    if passes(guess):  # up the list, to a place that fails; -1: none does
        low = high = guess
        while low == high:
            low = max(high - step, 0) if high else -1
            if low >= 0 and passes(low):
                high, step = low, 2 * step
    else:  # down the list, to one that passes
        low, high = guess, min(guess + step, len(sizes) - 1)
        while not passes(high):
            step *= 2
            low, high = high, min(high + step, len(sizes) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return tried[high]


def _inducing(x: Array, scale: Array, n_points: int, seed: int) -> Inducing:
    xp = namespace_of(x)
    points = centroids(x, n_points, seed) * scale
    kernel = cross_kernel(points, points)
    identity = xp.eye(n_points, dtype=kernel.dtype, device=kernel.device)
    jitter = JITTER  # few coordinates make the kernel singular, so it gets a small diagonal
    while True:
        try:
            inverse_factor = xp.linalg.inv(xp.linalg.cholesky(kernel + jitter * identity))
            break
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's error is a RuntimeError
            jitter *= 10
            if jitter > MAX_JITTER:
                raise
    whitened = inverse_factor @ cross_kernel(points, x * scale)
    unexplained = x.shape[0] - float(xp.sum(whitened * whitened))
    return Inducing(points, inverse_factor, whitened, unexplained / (NU + n_points - 2))


# One mapping (Algorithm 1) ----------------------------------------------------------------------


class Layer(TypedDict):
    """A fitted mapping.

    The inputs are ``(x - origin) · scale``, `inducing` holds the inducing points in the same
    coordinates, and the answer is ``kernel(inputs, inducing) @ coefficients``.
    """

    origin: Array
    scale: Array
    inducing: Array
    coefficients: Array
    tau: float
    variance: float  # sigma²
    noise_precision: float  # beta


def fit_layer(
    x: Array,
    Y: Array,
    *,
    max_points: int,
    kappa: float,
    seed: int,
    width: int,
    first_layer: bool = True,
) -> tuple[Layer, Array]:
    """Fit Algorithm 1 and return the mapping with its outputs at the training inputs.

    max_points: M_max, at most N.
    width: The p by which variances and errors are averaged; rows that were rotated into fewer
        coordinates keep the p they had.
    first_layer: Where the search for M begins: far below M_max, or at it.
    """
    xp = namespace_of(x)
    n_rows, origin = int(Y.shape[0]), xp.mean(x, axis=0)
    ranges = xp.max(x, axis=0) - xp.min(x, axis=0)
    varies = ranges > 0  # a constant input has range 0 and weight 0 (53)
    scale = xp.where(varies, 1 / xp.where(varies, ranges, xp.ones_like(ranges)), 0.0)
    found = choose_inducing(
        x - origin, scale, max_points, kappa=kappa, seed=seed, first_layer=first_layer
    )
    variance = 1.0  # steps 9 to 13; identical inputs have tau = 0, and then any variance serves
    if n_rows > 1 and found.tau > 0:
        away = Y - xp.mean(Y, axis=0)
        data_variance = float(xp.sum(away * away)) / (n_rows - 1) / width
        variance = 1.0 if found.tau >= data_variance else data_variance / found.tau
    spectrum, rotation = xp.linalg.eigh(found.whitened @ xp.matrix_transpose(found.whitened))
    image = xp.matrix_transpose(rotation) @ (found.whitened @ Y)  # Z
    spectrum = xp.clip(spectrum, min=0.0)

    total, count, energy = float(xp.sum(Y * Y)), n_rows * width, xp.vecdot(image, image)
    least = max(total * 1e-14, 1e-300)  # rows met exactly would have infinite precision
    precision = 1.0
    for _ in range(MAX_BETA_STEPS):  # the fixed point of beta, steps 15 to 19
        raised = spectrum + (max(found.tau, 0.0) + 1 / (variance * precision))
        explained = float(xp.sum(energy * (2 / raised - spectrum / (raised * raised))))
        last, precision = precision, count / max(total - explained, least)
        if abs(precision - last) <= BETA_TOLERANCE * precision:
            break
    shift = max(found.tau, 0.0) + 1 / (variance * precision)
    mixed = rotation @ (image / (spectrum + shift)[:, None])  # (C + lambda)⁻¹ H Y
    layer = Layer(
        origin=origin,
        scale=scale,
        inducing=found.points,
        coefficients=xp.matrix_transpose(found.inverse_factor) @ mixed,
        tau=found.tau,
        variance=variance,
        noise_precision=precision,
    )
    return layer, xp.matrix_transpose(found.whitened) @ mixed


# The conditionally deep autoencoder of one set of rows (Algorithm 2, Definition 11) --------------
#
# Between two layers only the leading coordinates of the output are wanted, so that a fitted layer
# also keeps its coefficients times the directions (`onward`), and one eigen-decomposition serves
# all layers: their directions are the first ones of the same covariance.


class BranchLayer(TypedDict):
    """One layer, ready to be evaluated."""

    inducing: Array  # M x n
    coefficients: Array  # M x p
    onward: Array  # M x n', inputs of the next layer before `onward_origin` is taken off
    onward_origin: Array
    tau: float
    variance: float
    noise_precision: float


class Branch(TypedDict):
    """A fitted autoencoder: ``project`` gives the inputs of the first layer."""

    centre: Array  # what is taken off the rows: their mean, or zero
    project: Array  # p x n
    origin: Array
    layers: list[BranchLayer]


_layer = record(
    inducing=numbers("M", "n"),
    coefficients=numbers("M", "d"),
    onward=numbers("M", "m"),
    onward_origin=numbers("m"),
    tau=real(),
    variance=real(least=0.0),
    noise_precision=real(least=0.0, most=1e308),
)
_fields = record(
    centre=numbers("d"),
    project=numbers("d", "first"),
    origin=numbers("first"),
    layers=listed(_layer),
)


def stored_branch(value: Any, place: str, sizes: dict[str, int]) -> None:
    """Ask a stored model for an autoencoder of rows of d numbers, each layer fitting the next."""
    _fields(value, place, sizes)
    if value["project"].dtype == np.float32 and np.abs(value["centre"]).max() > MAX_FLOAT32:
        raise refuse(f"{place}.centre", "numbers that single precision can square")
    given = sizes["first"]
    for layer in value["layers"]:
        if layer["inducing"].shape[1] != given or not len(layer["inducing"]):
            raise refuse(f"{place}.layers", "layers that take what the one before gives")
        given = layer["onward"].shape[1]


def fit_branch(
    rows: Array,
    *,
    n_components: int,
    n_layers: int,
    inducing_ratio: float,
    kappa: float,
    center: bool,
    seed: int,
    width: int | None = None,
    dtype: str = "float64",
) -> Branch:
    """Fit Algorithm 2 in double precision; `dtype` is the precision of what is kept.

    n_components: Subspace dimension n of the first layer; capped by the rank of the rows.
    n_layers: L; layer l has ``max(n - l + 1, 1)`` inputs.
    inducing_ratio: ``M_max / N`` (68).
    center: Whether the mean is taken off first; as printed it is not.
    width: The p of averages, where it is not the number of columns; see `fit_layer`.
    """
    xp = namespace_of(rows)
    rows = cast(rows, "float64")
    n_rows, n_features = int(rows.shape[0]), int(rows.shape[1])
    mean = xp.mean(rows, axis=0)
    centre = mean if center else xp.zeros_like(mean)
    Y = rows - centre
    directions = _principal_directions(rows - mean, n_components)
    x, max_points = Y @ directions, max(1, round(inducing_ratio * n_rows))
    fitted = []
    for number in range(n_layers):
        n = max(int(directions.shape[1]) - number, 1)
        layer, outputs = fit_layer(
            x[:, :n],
            Y,
            max_points=max_points,
            kappa=kappa,
            seed=seed + number,
            width=width or n_features,
            first_layer=number == 0,
        )
        fitted.append(layer)
        max_points = int(layer["inducing"].shape[0])
        x = outputs @ directions
    layers = []  # with the scales of the inputs in projections and coefficients
    for number, layer in enumerate(fitted):
        follower = fitted[min(number + 1, len(fitted) - 1)]
        n = follower["scale"].shape[0]
        onward = (layer["coefficients"] @ directions[:, :n]) * follower["scale"]
        layers.append(
            BranchLayer(
                inducing=packed(layer["inducing"], dtype),
                coefficients=packed(layer["coefficients"], dtype),
                onward=packed(onward, dtype),
                onward_origin=packed(follower["origin"] * follower["scale"], dtype),
                tau=float(layer["tau"]),
                variance=float(layer["variance"]),
                noise_precision=float(layer["noise_precision"]),
            )
        )
    scale = fitted[0]["scale"]
    return Branch(
        centre=packed(centre, "float64"),
        project=packed(directions[:, : scale.shape[0]] * scale, dtype),
        origin=packed(fitted[0]["origin"] * scale, dtype),
        layers=layers,
    )


def _principal_directions(centred: Array, n_components: int) -> Array:
    """Return the leading eigenvectors of the covariance as columns, by the smaller Gram matrix."""
    xp = namespace_of(centred)
    n_rows, n_features = centred.shape
    turned = xp.matrix_transpose(centred)
    is_wide = n_features > n_rows
    values, vectors = xp.linalg.eigh(centred @ turned if is_wide else turned @ centred)
    rank = int(xp.sum(xp.astype(values > MIN_EIGENVALUE * values[-1], xp.int64)))
    n = max(1, min(n_components, rank, max(n_rows - 1, 1)))
    chosen = xp.flip(vectors, axis=1)[:, :n]
    if is_wide and rank > 0:
        chosen = (turned @ chosen) / xp.sqrt(xp.flip(values)[:n])
    elif is_wide:  # rows that are all the same have no direction; any will do
        chosen = xp.eye(n_features, dtype=centred.dtype, device=centred.device)[:, :1]
    return chosen


def layer_outputs(branch: Branch, rows: Array) -> Iterator[Array]:
    """Yield the output of every layer for rows from which the centre was taken off (63)."""
    inputs = rows @ branch["project"] - branch["origin"]
    for layer in branch["layers"]:
        kernel = cross_kernel(inputs, layer["inducing"])
        yield kernel @ layer["coefficients"]
        inputs = kernel @ layer["onward"] - layer["onward_origin"]


def errors(branch: Branch, rows: Array) -> Array:
    """Return the least squared distance of each row to its outputs (65)."""
    xp = namespace_of(rows)
    least = None
    for output in layer_outputs(branch, rows):
        output -= rows
        found = xp.vecdot(output, output)
        least = found if least is None else xp.minimum(least, found)
    return least


def filtered(branch: Branch, rows: Array) -> Array:
    """Return the output of the layer that is nearest to each row (64)."""
    xp = namespace_of(rows)
    best, least = None, None
    for output in layer_outputs(branch, rows):
        found = xp.vecdot(output - rows, output - rows)
        if best is None or least is None:
            best, least = output, found
            continue
        best = xp.where((found < least)[:, None], output, best)
        least = xp.minimum(found, least)
    return best


# Many branches, and many rows -------------------------------------------------------------------


def seed_from(random_state: Any) -> int:
    """Draw one seed of public randomness."""
    return int(check_random_state(random_state).randint(SEEDS))


def branch_errors(
    branches: Sequence[Branch], rows: Array, *, n_jobs: int | None, verbose: bool | None = False
) -> Array:
    """Return the squared error of every row under every branch, shape (n_rows, n_branches)."""
    return in_batches(
        partial(_errors_of_each, branches),
        like(branches[0]["centre"], rows),
        n_jobs=n_jobs,
        batch_rows=BATCH_ROWS,
        progress="Filtering rows" if verbose else None,
    )


def _errors_of_each(branches: Sequence[Branch], rows: Array) -> Array:
    found = [errors(branch, _centred(branch, rows)) for branch in branches]
    return namespace_of(rows).stack(found, axis=1)


def filtered_by(branches: Sequence[Branch], nearest: NDArray[np.intp], rows: Array) -> Array:
    """Return each row as filtered by the branch whose number is given for it."""
    return answer_by_number(
        nearest,
        like(branches[0]["centre"], rows),
        lambda number, chosen: evaluate(branches[number], filtered, chosen),
    )


def evaluate(branch: Branch, function: Callable[[Branch, Array], Array], rows: Array) -> Array:
    """Apply `filtered` or another function of centred rows in batches; put the centre back."""
    answers = in_batches(
        lambda batch: function(branch, _centred(branch, batch)),
        like(branch["centre"], rows),
        batch_rows=BATCH_ROWS,
    )
    return answers + cast(branch["centre"], _precision(branch))


def _centred(branch: Branch, rows: Array) -> Array:
    """Take the centre off in double precision, so that an offset costs no digits."""
    precision = _precision(branch)
    return cast(clip_to_finite(cast(rows, "float64") - branch["centre"], precision), precision)


def _precision(branch: Branch) -> str:
    single = namespace_of(branch["project"]).float32
    return "float32" if branch["project"].dtype == single else "float64"
