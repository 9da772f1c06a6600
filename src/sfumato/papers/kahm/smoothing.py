r"""Smooth private rows by the hull of the rows themselves (Definitions 13 and 14, Theorem 6).

With the kernel matrix K of the rows in their own principal coordinates,

.. math:: Y_{m+1} = H Y_m, \qquad H = K (K + λ^* I)^{-1} = I - λ^* (K + λ^* I)^{-1},

where K and λ\* belong to :math:`Y_m`. The fabricated rows are the images of the smoothed ones,
:math:`A(y_i) = (H Y)_i / (H 1)_i`. A fitted branch holds :math:`(K + λ^* I)^{-1}[S, 1]` for the
principal coordinates S, so one pass is one fit of a branch and two products.

Nothing here is private on its own: the rows that come in must be, and a threshold must be public.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sfumato.core.arrays import Array, cast, is_accelerated, namespace_of
from sfumato.core.parallel import map_in_parallel
from sfumato.models.hull_search import CLEARLY_POSITIVE, Branch, fit_branches, layer_width_scale
from sfumato.models.least_squares import gaussian_kernel

MAX_PASSES = 60


class Pass(NamedTuple):
    """One pass: A(y) of all rows, the smoothed rows H Y, |y - A(y)| of each, and the branch."""

    images: Array
    smoothed: Array
    errors: Array
    branch: dict[str, Any] | None

    @property
    def error(self) -> float:
        """The modelling error (86), which falls to zero with the number of passes (Theorem 6)."""
        return float(namespace_of(self.errors).sum(self.errors))


def fabricate_groups(
    groups: Sequence[Array],
    *,
    n_components: int,
    raw: Sequence[Array] | None = None,
    n_jobs: int | None = None,
    **parameters: Any,
) -> list[tuple[Array, int]]:
    """Smooth each group of rows on its own (Remark 4); return images (89) and passes M of each.

    As printed the errors of the `raw` rows say when to stop (88), (96), which is not private.
    """

    def fabricate(some: Sequence[int]) -> list[tuple[Array, int]]:
        limits: list[float | None] = [None] * len(some)
        if raw is not None:
            found = smoothing_passes([raw[i] for i in some], n_components=n_components)
            limits = [each.error for each in found]
        of_some = [groups[i] for i in some]
        return smooth_until(limits, of_some, n_components=n_components, **parameters)

    numbers = range(len(groups))
    if is_accelerated(groups[0]):  # in one stack
        return fabricate(numbers)
    parts = map_in_parallel(fabricate, [[i] for i in numbers], n_jobs=n_jobs)
    return [found for part in parts for found in part]


def smooth_until(
    limits: Sequence[float | None],
    groups: Sequence[Array],
    *,
    n_components: int,
    passes: int,
    noise: float | None = None,
    dtype: str = "float32",
) -> list[tuple[Array, int]]:
    """Smooth groups until `passes`, or the first pass whose error is at most the limit, if any.

    Given the expected squared length of the `noise` in a row, limits are estimated from the rows.
    """
    rows, left, made = [cast(group, dtype) for group in groups], list(range(len(groups))), {}
    limits = list(limits)
    for number in range(1, passes + 1):
        found = smoothing_passes([rows[i] for i in left], n_components=n_components, dtype=dtype)
        if noise is not None and number == 1:
            limits = [error_without_noise(each, noise) for each in found]
        for i, each in zip(left, found, strict=True):
            rows[i], made[i] = each.smoothed, (each.images, number)
        errors = zip(left, [each.error for each in found], strict=True)
        left = [i for i, error in errors if (limit := limits[i]) is None or error > limit]
        if not left:
            break
    return [made[i] for i in range(len(rows))]


def error_without_noise(first: Pass, noise: float) -> float:
    r"""Estimate the modelling error of the rows before they got their noise.

    Rows :math:`Y + V` leave :math:`G (Y + V)` with :math:`G = I - D^{-1} H`, D = diag(H 1). For
    independent noise of total variance `noise` in a row, :math:`E\,|(G V)_i|^2` is `noise` times
    :math:`|G_i|^2`, which is taken off each squared length before the square root.
    """
    if first.branch is None:
        return 0.0
    xp, branch = namespace_of(first.errors), first.branch
    inducing = branch["inducing"]
    kernel = gaussian_kernel(inducing * layer_width_scale(branch["n_components"], 0, inducing))
    identity = xp.eye(kernel.shape[0], dtype=kernel.dtype, device=kernel.device)
    shrink = float(branch["regularization"][0])
    smoother = identity - shrink * xp.linalg.inv(kernel + shrink * identity)  # H
    sums = xp.sum(smoother, axis=1)
    residual = identity - smoother / xp.where(sums > CLEARLY_POSITIVE, sums, xp.inf)[:, None]
    squares = first.errors**2 - noise * xp.vecdot(residual, residual)
    return float(xp.sum(xp.sqrt(xp.clip(squares, min=0.0))))


def smoothing_pass(rows: Array, **parameters: Any) -> Pass:
    """Fit a hull to rows and pass them through it."""
    return smoothing_passes([rows], **parameters)[0]


def smoothing_passes(
    groups: Sequence[Array], *, n_components: int, dtype: str = "float64"
) -> list[Pass]:
    """Fit a hull to each group of rows and pass them through it."""
    rows = [cast(group, dtype) for group in groups]
    branches = fit_branches(rows, n_components=n_components, n_layers=1, dtype=dtype)
    return [_through(branch, each, dtype) for branch, each in zip(branches, rows, strict=True)]


def _through(branch: Branch, rows: Array, dtype: str) -> Pass:
    xp = namespace_of(rows)
    if branch["n_components"] == 0:  # all rows are one point, which is its own hull
        return Pass(rows, rows, xp.zeros_like(rows[:, 0]), None)
    mean, shrink = branch["mean"], float(branch["regularization"][0])
    scores = cast(rows - mean, dtype)
    for factor in branch["basis"]:
        scores = scores @ factor
    solved = branch["coefficients"][0, :, :]
    coordinates = scores - shrink * solved[:, :-2]  # of H Y, less the mean's share
    sums = 1 - shrink * solved[:, -2:-1]  # H 1
    # Where the weights have no clearly positive sum a row has no image: the mean stands in.
    exists = sums > CLEARLY_POSITIVE
    images = xp.where(exists, coordinates, 0.0) / xp.where(exists, sums, 1.0)
    away = scores - images
    errors = xp.sqrt(xp.vecdot(away, away))
    for factor in reversed(branch["basis"]):
        back = xp.matrix_transpose(factor)
        coordinates, images = coordinates @ back, images @ back
    smoothed = cast(coordinates + sums * mean, dtype)
    return Pass(cast(images + mean, dtype), smoothed, errors, branch)
