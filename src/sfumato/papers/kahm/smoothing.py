r"""Smooth private rows by the hull of the rows themselves (Definitions 13 and 14).

With the kernel matrix K of the rows in their own principal coordinates,

.. math:: Y_{m+1} = H Y_m, \qquad H = K (K + λ^* I)^{-1} = I - λ^* (K + λ^* I)^{-1},

where K and λ\* belong to :math:`Y_m`. The fabricated rows are the images of the smoothed ones,
:math:`A(y_i) = (H Y)_i / (H 1)_i`. A fitted branch holds :math:`(K + λ^* I)^{-1}[S, 1]` for the
principal coordinates S, so one pass is one fit of a branch and two products.

Nothing here is private by itself: the rows that come in must be, and a threshold must be public.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.core.arrays import Array, cast, is_accelerated, namespace_of
from sfumato.core.parallel import map_in_parallel
from sfumato.models.hull_search import CLEARLY_POSITIVE, fit_branch

MAX_PASSES = 60


def fabricate_rows(
    rows: Array,
    *,
    n_components: int,
    passes: int,
    threshold: float | None = None,
    dtype: str = "float64",
) -> tuple[Array, int]:
    """Smooth rows; return the images of the smoothed ones (89), and the number M of passes.

    The last pass is `passes`, or the first whose error is at most the threshold, where there is
    one. The paper takes it from the raw rows (88), which is not private.
    """
    images, smoothed, error = _one_pass(cast(rows, dtype), n_components, dtype)
    number = 1
    while number < passes and (threshold is None or error > threshold):
        images, smoothed, error = _one_pass(smoothed, n_components, dtype)
        number += 1
    return images, number


def fabricate_groups(
    groups: Sequence[Array],
    *,
    n_components: int,
    passes: int,
    thresholds: Sequence[float] | None = None,
    dtype: str = "float32",
    n_jobs: int | None = None,
    verbose: bool = False,
) -> list[tuple[Array, int]]:
    """Fabricate each group of rows by itself (Remark 4)."""

    def fabricate(number: int) -> tuple[Array, int]:
        return fabricate_rows(
            groups[number],
            n_components=n_components,
            passes=passes,
            threshold=None if thresholds is None else thresholds[number],
            dtype=dtype,
        )

    places = getattr(groups, "places", groups)
    return map_in_parallel(
        fabricate,
        range(len(groups)),
        n_jobs=1 if is_accelerated(groups[0]) else n_jobs,
        progress="Fabricating" if verbose else None,
        costs=[int(each.shape[0]) for each in places],
    )


def modelling_error(rows: Array, *, n_components: int) -> float:
    """Return ``sum |y_i - A(y_i)|`` over the rows of the hull itself (88)."""
    return _one_pass(cast(rows, "float64"), n_components, "float64")[2]


def _one_pass(rows: Array, n_components: int, dtype: str) -> tuple[Array, Array, float]:
    """Return the images A(y) of rows, the smoothed rows H Y, and the sum of |y - A(y)|."""
    xp = namespace_of(rows)
    quick = dtype == "float32"
    branch = fit_branch(rows, n_components=n_components, n_layers=1, dtype=dtype, quick=quick)
    if branch["n_components"] == 0:  # all rows are one point, which is its own hull
        return rows, rows, 0.0
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
    error = float(xp.sum(xp.sqrt(xp.vecdot(away, away))))
    for factor in reversed(branch["basis"]):
        back = xp.matrix_transpose(factor)
        coordinates, images = coordinates @ back, images @ back
    return cast(images + mean, dtype), cast(coordinates + sums * mean, dtype), error
