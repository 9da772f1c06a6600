"""Values of a released function at points that are all known beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from sfumato.accounting.receipt import Chargeable
from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.functions.domain import as_points
from sfumato.functions.features import Function, TaylorFeatures, nugget_cholesky, raw_values
from sfumato.kernels import ExponentialKernel, GaussianKernel, Kernel, KernelExpansion
from sfumato.kernels.bridge import MarkovLine
from sfumato.mechanisms import GaussianProcessMechanism

__all__ = ["has_taylor", "release_at_points", "release_on_grid"]

Array = NDArray[np.float64]
CLOSEST = 2.0**-24  # points of a line nearer than this (in units of 1/γ) count as one


def release_at_points(
    function: Function,
    points: ArrayLike,
    *,
    kernel: Kernel,
    mechanism: GaussianProcessMechanism,
    ledger: Chargeable | None,
) -> Array:
    """Release the values at rows of points: ``L (L⁻¹ f + noise)`` with ``L Lᵀ = K``.

    A kernel expansion with the Gaussian kernel goes through Taylor features, the exponential kernel
    on a line through its Markov factor, everything else through a dense factor of ``K + τ I``.
    """
    given = np.asarray(points, dtype=np.float64)
    rows = as_points(given, 1 if given.ndim < 2 else given.shape[1])
    _refuse_none(rows)
    if has_taylor(function, kernel):
        features = TaylorFeatures(kernel, _box_around(rows), rows.shape[1])
        coordinates = mechanism.release(features.coordinates(function), ledger=ledger)
        return features.evaluate(coordinates, rows)
    if isinstance(kernel, ExponentialKernel) and rows.shape[1] == 1:
        x, place = _merged(rows[:, 0], float(kernel.rates(1)[0]))
        values = release_on_grid(function, (x,), kernel=kernel, mechanism=mechanism, ledger=ledger)
        return values[place]
    factor = nugget_cholesky(kernel, rows)
    coordinates = solve_triangular(factor, raw_values(function, rows), lower=True)
    return np.asarray(factor @ mechanism.release(coordinates, ledger=ledger))


def release_on_grid(
    function: Function,
    axes: Sequence[ArrayLike],
    *,
    kernel: Kernel,
    mechanism: GaussianProcessMechanism,
    ledger: Chargeable | None,
) -> Array:
    """Release the values on the product of `axes`, one axis at a time."""
    lines = [as_points(axis, 1)[:, 0] for axis in axes]
    points = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    rows = points.reshape(-1, len(lines))
    _refuse_none(rows)
    if has_taylor(function, kernel):
        features = TaylorFeatures(kernel, _box_around(rows), len(lines))
        coordinates = mechanism.release(features.coordinates(function), ledger=ledger)
        return features.evaluate_grid(coordinates, lines)
    if not isinstance(kernel, ExponentialKernel):
        values = release_at_points(
            function, rows, kernel=kernel, mechanism=mechanism, ledger=ledger
        )
        return values.reshape(points.shape[:-1])
    rates = kernel.rates(len(lines))
    _refuse_close(lines, rates)
    factors = [MarkovLine(line, rate) for line, rate in zip(lines, rates, strict=True)]
    coordinates = raw_values(function, rows).reshape(points.shape[:-1])
    for number, factor in enumerate(factors):
        coordinates = np.swapaxes(factor.whiten(np.swapaxes(coordinates, 0, number)), 0, number)
    values = mechanism.release(coordinates, ledger=ledger)
    for number, factor in enumerate(factors):
        values = np.swapaxes(factor.colour(np.swapaxes(values, 0, number)), 0, number)
    return values


def has_taylor(function: Function, kernel: Kernel) -> bool:
    """Whether f is a sum of Gaussian kernels in the very space in which it is released."""
    is_expansion = isinstance(function, KernelExpansion) and function.kernel == kernel
    return isinstance(kernel, GaussianKernel) and is_expansion


def _box_around(rows: Array) -> Bounds:
    """Smallest box of the public points; where it is flat, a little wider."""
    lower, upper = rows.min(axis=0), rows.max(axis=0)
    return Bounds(lower=lower, upper=np.maximum(upper, lower + 1e-9 * (1 + np.abs(lower))))


def _merged(x: Array, rate: float) -> tuple[Array, NDArray[np.intp]]:
    """Give increasing points that are far enough apart, and the place of each x among them."""
    order = np.argsort(x, kind="stable")
    kept: list[float] = []
    place = np.empty(len(x), dtype=np.intp)
    for i in order:
        if not kept or rate * (x[i] - kept[-1]) >= CLOSEST:
            kept.append(float(x[i]))
        place[i] = len(kept) - 1
    return np.array(kept), place


def _refuse_none(rows: Array) -> None:
    if rows.size == 0:
        raise InvalidInputError("'points' must hold at least one point.")


def _refuse_close(lines: Sequence[Array], rates: Array) -> None:
    for line, rate in zip(lines, rates, strict=True):
        if len(line) > 1 and not (rate * np.diff(line)).min() >= CLOSEST:
            raise InvalidInputError(
                "The points of each axis must increase, by at least "
                f"{CLOSEST:.1e} in units of 1/rate."
            )
