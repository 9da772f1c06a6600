r"""Smooth private rows by the hull of the rows themselves (Definitions 13 and 14).

With the kernel matrix K of the rows in their own principal coordinates,

.. math:: Y_{m+1} = H Y_m, \qquad H = K (K + λ^* I)^{-1} = I - λ^* (K + λ^* I)^{-1},

where K and λ\* belong to :math:`Y_m`. The fabricated rows are the images of the smoothed ones,
:math:`A(y_i) = (H Y)_i / (H 1)_i`. A fitted branch holds :math:`(K + λ^* I)^{-1}[S, 1]` for the
principal coordinates S, so one pass is one fit of a branch and two products.

Nothing here is private by itself: the rows that come in must be, and a threshold must be public.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sfumato.core.arrays import Array, cast, is_accelerated, namespace_of
from sfumato.core.parallel import map_in_parallel
from sfumato.models.hull_search import CLEARLY_POSITIVE, RowGroups, fit_branch

MAX_PASSES = 60


class _Pass(NamedTuple):
    images: Array  # A(y) for each row
    smoothed: Array  # H Y
    error: float  # sum of |y - A(y)|


class Fabricated(NamedTuple):
    """Fabricated rows, and the number M of passes that made them."""

    rows: Array
    n_passes: int


@dataclass(frozen=True)
class Stop:
    """When the smoothing ends: at the first pass M with ``error_M <= threshold``, at `passes` else.

    ``error_M`` is the sum of the distances from the rows to their images in pass M; pass 1 sees
    the rows as they came.

    passes: The most passes M; the last of them gives the images. Public.
    threshold: The threshold itself. The paper takes it from the raw rows (88), which is not
        private.
    """

    passes: int = 2
    threshold: float | None = None

    def reached(self, n_passes: int, error: float) -> bool:
        """Return whether pass `n_passes` is the last."""
        limit = -math.inf if self.threshold is None else self.threshold
        return n_passes >= self.passes or error <= limit


def fabricate_rows(
    rows: Array, *, n_components: int, stop: Stop, dtype: str = "float64"
) -> Fabricated:
    """Smooth rows and return the images of the smoothed ones (89)."""
    for number, step in enumerate(_passes(rows, n_components, dtype), start=1):
        if stop.reached(number, step.error):
            break
    return Fabricated(step.images, number)


def fabricate_groups(
    groups: Sequence[Array],
    *,
    n_components: int,
    stops: Sequence[Stop],
    dtype: str = "float32",
    n_jobs: int | None = None,
    verbose: bool = False,
) -> list[Fabricated]:
    """Fabricate each group of rows by itself (Remark 4)."""
    workers = 1 if is_accelerated(groups[0]) else n_jobs
    return map_in_parallel(
        partial(_fabricate_one, groups, stops, n_components=n_components, dtype=dtype),
        range(len(groups)),
        n_jobs=workers,
        progress="Fabricating" if verbose else None,
        costs=_lengths(groups),
    )


def modelling_error(rows: Array, *, n_components: int) -> float:
    """Return ``sum |y_i - A(y_i)|`` over the rows of the hull itself (88)."""
    return next(_passes(rows, n_components, "float64")).error


def _lengths(groups: Sequence[Array]) -> list[int]:
    if isinstance(groups, RowGroups):
        return [len(places) for places in groups.places]
    return [int(rows.shape[0]) for rows in groups]


def _fabricate_one(
    groups: Sequence[Array], stops: Sequence[Stop], number: int, **parameters: Any
) -> Fabricated:
    return fabricate_rows(groups[number], stop=stops[number], **parameters)


def _passes(rows: Array, n_components: int, dtype: str) -> Iterator[_Pass]:
    rows = cast(rows, dtype)
    for _ in itertools.count():
        step = _one_pass(rows, n_components, dtype)
        yield step
        rows = step.smoothed


def _one_pass(rows: Array, n_components: int, dtype: str) -> _Pass:
    xp = namespace_of(rows)
    quick = dtype == "float32"
    branch = fit_branch(rows, n_components=n_components, n_layers=1, dtype=dtype, quick=quick)
    if branch["n_components"] == 0:  # all rows are one point, which is its own hull
        return _Pass(rows, rows, 0.0)
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
    return _Pass(cast(images + mean, dtype), cast(coordinates + sums * mean, dtype), error)
