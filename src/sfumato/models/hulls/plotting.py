"""Pictures of hulls in the plane: the image of the map and the distance as a colour map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError

MARGIN = 0.15


def plot_distance(hull: Any, rows: ArrayLike, *, ax: Any = None, n_grid: int = 200) -> Any:
    """Draw the distance of a hull of 2-D rows, or the least of a classifier, as a colour map.

    hull (KernelAffineHull, DeepAffineHull, WideAffineHull or AffineHullClassifier): Fitted on rows
        with two features.
    rows (n_samples, 2): Rows to mark; they also set the frame.
    ax: (matplotlib axes).
    n_grid: Points of the grid along each side.
    Returns: (matplotlib axes).
    """
    points, ax = _plane(rows), _axes(ax)
    x, y, grid = _grid(points, n_grid)
    distances = (
        hull.distances(grid).min(axis=1) if hasattr(hull, "distances") else hull.distance(grid)
    )
    shown = np.ma.masked_invalid(np.reshape(distances, (n_grid, n_grid)))
    picture = ax.pcolormesh(x, y, shown, shading="auto", cmap="viridis")
    ax.figure.colorbar(picture, ax=ax, label="distance to the image")
    ax.plot(points[:, 0], points[:, 1], "+", color="white", markersize=4)
    ax.set_aspect("equal")
    return ax


def plot_image(hull: Any, rows: ArrayLike, *, ax: Any = None, n_grid: int = 200) -> Any:
    """Draw where a hull of 2-D rows sends the points of a grid around them.

    hull (KernelAffineHull, DeepAffineHull or WideAffineHull): Fitted on rows with two features.
    rows (n_samples, 2): Rows to mark; they also set the frame.
    ax: (matplotlib axes).
    n_grid: Points of the grid along each side.
    Returns: (matplotlib axes).
    """
    points, ax = _plane(rows), _axes(ax)
    *_, grid = _grid(points, n_grid)
    image = hull.transform(grid)[np.isfinite(hull.distance(grid))]
    ax.plot(image[:, 0], image[:, 1], ".", color="tab:orange", markersize=1, label="image")
    ax.plot(points[:, 0], points[:, 1], "+", color="black", markersize=4, label="rows")
    ax.set_aspect("equal")
    return ax


def _plane(rows: ArrayLike) -> NDArray[np.float64]:
    points = np.asarray(rows, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise InvalidInputError(
            f"'rows' must have shape (n_samples, 2). Got {points.shape} instead."
        )
    return points


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            "Pictures need matplotlib: install it with pip install 'sfumato[plot]'."
        ) from None
    return pyplot.gca()


def _grid(points: NDArray[np.float64], n_grid: int) -> tuple[Any, Any, NDArray[np.float64]]:
    low, high = points.min(axis=0), points.max(axis=0)
    frame = MARGIN * (high - low)
    x, y = np.linspace(low - frame, high + frame, n_grid).T
    return x, y, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
