"""Images and distances of points under a fitted branch (equations 33, 48 and 50 to 53)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sfumato.core.arrays import Array, cast, namespace_of, regularized_solver
from sfumato.models.hulls.branch import Branch, layer_width_scale
from sfumato.models.kernels.gaussian import gaussian_kernel, relative_gaussian_kernel

# The weights of a point are h_i / Σh. Σh is positive near the data but, against Theorem 2, not
# everywhere: where it is not clearly above its own rounding the point has no image.
CLEARLY_POSITIVE = 1e-6


class _Layer(NamedTuple):
    coordinates: Array  # of the image, in the principal basis
    distance: Array  # from the point to its image; inf where there is none


def distance(branch: Branch, rows: Array, *, n_layers: int | None = None) -> Array:
    """Return the least distance from each row to its images under the first `n_layers` layers."""
    xp = namespace_of(rows)
    least = None
    for layer in _layers(branch, rows, n_layers):
        least = layer.distance if least is None else xp.minimum(least, layer.distance)
    return least


def nearest_layer(branch: Branch, rows: Array) -> Array:
    """Return the number l (from 1) of the layer with the nearest image, equation (52)."""
    xp = namespace_of(rows)
    stacked = xp.stack([layer.distance for layer in _layers(branch, rows)], axis=-1)
    return xp.argmin(stacked, axis=-1) + 1


def image(branch: Branch, rows: Array) -> Array:
    """Return the image of each row under its nearest layer; the mean where there is none."""
    xp = namespace_of(rows)
    layers = _layers(branch, rows)
    nearest = next(layers)
    for layer in layers:
        nearer = layer.distance < nearest.distance
        nearest = _Layer(
            xp.where(nearer[..., None], layer.coordinates, nearest.coordinates),
            xp.minimum(layer.distance, nearest.distance),
        )
    return _to_rows(branch, nearest.coordinates)


def layer_images(branch: Branch, rows: Array) -> Array:
    """Return the images of the rows under every layer, equation (51), shape (M, L, p)."""
    images = [_to_rows(branch, layer.coordinates) for layer in _layers(branch, rows)]
    return namespace_of(rows).stack(images, axis=1)


def coarse_branch(branch: Branch, n_coordinates: int) -> Branch:
    """Return the first layer of a branch, its image cut to the leading principal coordinates.

    In the other coordinates the image is taken to be the mean. The distance then is an estimate
    that needs a quarter of the products or less.
    """
    coefficients = branch["coefficients"][:1, :, :]
    n = min(max(n_coordinates, branch["inducing"].shape[-1]), coefficients.shape[-1] - 2)
    kept = [coefficients[:, :, :n], coefficients[:, :, -2:]]
    return {
        **branch,
        "basis": [*branch["basis"][:-1], branch["basis"][-1][:, :n]],
        "coefficients": namespace_of(coefficients).concat(kept, axis=-1),
    }


def weights(branch: Branch, rows: Array) -> Array:
    """Return the affine weights ``h_i(y) / Σ h(y)`` of the first layer.

    They are zero where Σh is not positive. The folded model does not hold them, so the system
    is factored again: O(N³) per call.
    """
    xp = namespace_of(rows)
    inducing = branch["inducing"]
    scale = layer_width_scale(branch["n_components"], 0, inducing)
    whitened = cast(inducing * scale, "float64")
    solve = regularized_solver(gaussian_kernel(whitened), branch["regularization"][0])
    start, _ = _project(branch, rows)
    start = start[:, : inducing.shape[-1]] / branch["deviations"] * scale
    kernel = cast(relative_gaussian_kernel(start, inducing * scale), "float64")
    memberships = xp.matrix_transpose(solve(xp.matrix_transpose(kernel)))
    sums = kernel @ cast(branch["coefficients"][0, :, -2:], "float64")
    valid = sums[:, :1] > CLEARLY_POSITIVE * sums[:, 1:]
    return xp.where(valid, memberships / xp.where(valid, sums[:, :1], 1.0), 0.0)


def n_layers_of(branch: Branch) -> int:
    """Return the number of layers L after capping."""
    return int(branch["coefficients"].shape[-3])


def _layers(branch: Branch, rows: Array, n_layers: int | None = None) -> Iterator[_Layer]:
    """Pass the rows through the layers; `rows` and the stored mean share one origin."""
    xp = namespace_of(rows)
    coordinates, outside = _project(branch, rows)
    deviations, inducing = branch["deviations"], branch["inducing"]
    point = coordinates
    exists = True
    for layer in range(n_layers or n_layers_of(branch)):
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
        yield _Layer(point, xp.where(exists, length, xp.full_like(length, xp.inf)))


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


def _to_rows(branch: Branch, coordinates: Array) -> Array:
    xp = namespace_of(coordinates)
    for factor in reversed(branch["basis"]):
        coordinates = coordinates @ xp.matrix_transpose(factor)
    return coordinates + branch["mean"][..., None, :]
