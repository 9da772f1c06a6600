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
from sfumato.models.hull_search import CLEARLY_POSITIVE, fit_branch, layer_width_scale
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


def fabricate_rows(
    rows: Array,
    *,
    n_components: int,
    passes: int,
    threshold: float | None = None,
    noise: float | None = None,
    dtype: str = "float64",
) -> tuple[Array, int]:
    """Smooth rows; return the images of the smoothed ones (89), and the number M of passes.

    The last pass is `passes`, or the first whose error is at most the threshold, where there is
    one. The paper takes it from the raw rows (88), which is not private; given the expected squared
    length of the `noise` in a row, `error_without_noise` estimates the same from these rows.
    """
    found = smoothing_pass(cast(rows, dtype), n_components=n_components, dtype=dtype)
    if noise is not None:
        threshold = error_without_noise(found, noise)
    number = 1
    while number < passes and (threshold is None or found.error > threshold):
        found = smoothing_pass(found.smoothed, n_components=n_components, dtype=dtype)
        number += 1
    return found.images, number


def fabricate_groups(
    groups: Sequence[Array],
    *,
    thresholds: Sequence[float] | None = None,
    n_jobs: int | None = None,
    **parameters: Any,
) -> list[tuple[Array, int]]:
    """Fabricate each group of rows on its own (Remark 4), in single precision."""

    def fabricate(number: int) -> tuple[Array, int]:
        threshold = None if thresholds is None else thresholds[number]
        return fabricate_rows(groups[number], threshold=threshold, dtype="float32", **parameters)

    return map_in_parallel(
        fabricate, range(len(groups)), n_jobs=1 if is_accelerated(groups[0]) else n_jobs
    )


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


def smoothing_pass(rows: Array, *, n_components: int, dtype: str = "float64") -> Pass:
    """Fit a hull to rows and pass them through it."""
    xp = namespace_of(rows)
    rows = cast(rows, dtype)
    branch = fit_branch(rows, n_components=n_components, n_layers=1, dtype=dtype)
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
