"""The conditionally deep autoencoder of one set of rows (Algorithm 2, Definition 11).

Between two layers only the leading coordinates of the output are wanted, so that a fitted layer
also keeps its coefficients times the directions (`onward`), and one eigen-decomposition serves all
layers: their directions are the first ones of the same covariance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import numpy as np

from sfumato.core.arrays import Array, cast, namespace_of, packed
from sfumato.core.constraints import MAX_FLOAT32, listed, numbers, real, record, refuse
from sfumato.models.mappings.inducing import cross_kernel
from sfumato.models.mappings.layer import fit_layer

MIN_EIGENVALUE = 1e-12  # of the largest; below it a direction counts as constant


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

    rows: (N, p).
    n_components: Subspace dimension n of the first layer; capped by the rank of the rows.
    n_layers: L; layer l has ``max(n - l + 1, 1)`` inputs.
    inducing_ratio: ``M_max / N`` (68).
    kappa: Least tau(M, 1).
    center: Whether the mean is taken off first; as printed it is not.
    seed: Starts of the k-means.
    width: The p of averages, where it is not the number of columns; see `fit_layer`.
    dtype: ({"float64", "float32"}).
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
    return _folded(fitted, centre, directions, dtype)


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


def _folded(fitted: list[Any], centre: Array, directions: Array, dtype: str) -> Branch:
    """Put the scales of the inputs into projections and coefficients."""
    layers = []
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
        nearer = found < least
        best = xp.where(nearer[:, None], output, best)
        least = xp.minimum(found, least)
    return best
