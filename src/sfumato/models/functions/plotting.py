"""Pictures of released functions."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.models.functions.domain import Domain
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

LINE, PLANE = 500, 120  # points drawn along an axis


def plot_density(model: Any, *, ax: Any, raw: bool) -> Any:
    """Draw a released density: a curve for one feature, a colour map for two.

    model (PrivateDensity): Fitted on rows with one or two features.
    ax: (matplotlib axes or None).
    raw: Add the release itself, which may be negative; for one feature.
    Returns: (matplotlib axes).
    """
    domain = Domain(model.row_bounds, model.n_features_in_)
    if domain.n_features == 1:
        return _curve(model, domain, _axes(ax), raw=raw)
    if domain.n_features == 2:
        return _map(model, domain, _axes(ax))
    raise InvalidInputError(
        f"A picture needs one or two features, the density has {domain.n_features}."
    )


def _curve(model: Any, domain: Domain, ax: Any, *, raw: bool) -> Any:
    x = np.linspace(domain.lower[0], domain.upper[0], LINE)[:, None]
    if len(model.classes_) == 1:
        (line,) = ax.plot(x, model.density(x), label="private density")
        if model.method_ == "grid":
            low, high = model.bands(x)
            ax.fill_between(
                x[:, 0], low, high, step="mid", color=line.get_color(), alpha=0.2, label="noise"
            )
    else:
        for label, column in zip(model.classes_, model.class_densities(x).T, strict=True):
            ax.plot(x, column, label=f"class {label}")
    if raw:
        ax.plot(x, model.raw_density(x), linewidth=0.8, linestyle=":", label="release")
    ax.set_ylabel("density")
    _name_axes(model, ax.set_xlabel)
    ax.legend()
    return ax


def _name_axes(model: Any, *axes: Any) -> None:
    """Write the names of the columns of a table at the axes."""
    if isinstance(model.bounds, TableBounds):
        for name_axis, feature in zip(axes, model.bounds.features, strict=True):
            name_axis(feature.name)


def _map(model: Any, domain: Domain, ax: Any) -> Any:
    x, y = (np.linspace(domain.lower[j], domain.upper[j], PLANE) for j in range(2))
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    picture = ax.pcolormesh(x, y, model.density(points).reshape(PLANE, PLANE), shading="auto")
    ax.figure.colorbar(picture, ax=ax, label="density")
    _name_axes(model, ax.set_xlabel, ax.set_ylabel)
    return ax


def plot_curve(model: Any, *, ax: Any) -> Any:
    """Draw a released mean curve with a band of two standard deviations of its noise.

    model (PrivateMeanCurve): Fitted.
    ax: (matplotlib axes or None).
    Returns: (matplotlib axes).
    """
    ax = _axes(ax)
    t = np.linspace(model.points_[0], model.points_[-1], LINE)
    curve, noise = model.curve(t), model.noise_std(t)
    (line,) = ax.plot(t, curve, label="private mean curve")
    ax.fill_between(
        t, curve - 2 * noise, curve + 2 * noise, color=line.get_color(), alpha=0.2, label="noise"
    )
    ax.legend()
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # an optional dependency, needed for pictures only

    return plt.subplots()[1]


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_function(model: Any, path: Path) -> None:
    """Write the picture of a released function to a file, by the ending of its name.

    model (PrivateDensity or PrivateMeanCurve): Fitted.
    path: Ends in .png, .svg or .pdf.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    model.plot(ax=figure.subplots())
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix.lstrip(".").lower())
