"""What a hull looks like: Figures 4, 6 and 8 of the hull paper. Nothing here is private.

The figures print no numbers, so that each is judged by what it is there to show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from sfumato.models.hulls import AffineHullClassifier, DeepAffineHull, KernelAffineHull
from sfumato.papers.data import images
from sfumato.papers.entry import Entry, Outcome, Setting

ROWS = 150
GRID = 40
EIGHT = 8
SHOWN = 4  # held-out eights in the picture
NO_NUMBERS = (
    "The paper shows a picture and prints no figure; the rows of its picture are not given."
)


# Figure 4 -----------------------------------------------------------------------------------------


def plane_sets(seed: int) -> dict[str, NDArray[Any]]:
    """Return some rows in the unit square."""
    turn = np.linspace(0.0, 3 * np.pi, ROWS)
    spiral = np.column_stack([turn * np.cos(turn), turn * np.sin(turn)])
    sets = {
        "spiral": spiral,
        "moons": make_moons(ROWS, noise=0.04, random_state=seed)[0],
        "circle": make_circles((ROWS, 0), noise=0.03, random_state=seed)[0],
        "three groups": make_blobs(ROWS, random_state=seed, cluster_std=0.9)[0],
    }
    return {name: _in_the_square(rows) for name, rows in sets.items()}


def _in_the_square(rows: NDArray[Any]) -> NDArray[Any]:
    low, high = rows.min(axis=0), rows.max(axis=0)
    return np.asarray((rows - low) / (high - low))


def square(side: int = GRID, margin: float = 0.25) -> NDArray[Any]:
    """Return the points of a grid over the unit square and a margin around it."""
    line = np.linspace(-margin, 1 + margin, side)
    return np.column_stack([axis.ravel() for axis in np.meshgrid(line, line)])


def figure_4(setting: Setting) -> Outcome:
    """Map a grid over the plane by hulls of several sets of rows."""
    series, nearer, inside = {}, [], []
    for name, rows in plane_sets(seed=0).items():
        setting.tell(name)
        grid = square(GRID // 2 if setting.quick else GRID)
        hull = KernelAffineHull(n_components=2).fit(rows)
        image = hull.transform(grid)[np.isfinite(hull.distance(grid))]
        nearer.append(_distance_to(rows, image) < _distance_to(rows, grid))
        inside.append(np.all((image > -0.25) & (image < 1.25), axis=1).mean() > 0.95)
        series[name] = {"rows": rows.round(4).tolist(), "image": image.round(4).tolist()}
    claims = {
        "the image lies nearer to the rows than the plane around them": all(nearer),
        "the image is a bounded region around the rows": all(inside),
    }
    bound = (
        "Theorem 2 says that every image is bounded; far from the rows there are counterexamples, "
        "which the library answers with an infinite distance."
    )
    return Outcome((), claims, series, _draw_images, (NO_NUMBERS, bound))


def _distance_to(rows: NDArray[Any], points: NDArray[Any]) -> float:
    """Return the mean distance from points to the nearest row."""
    return float(NearestNeighbors(n_neighbors=1).fit(rows).kneighbors(points)[0].mean())


def _draw_images(figure: Any, series: Mapping[str, Any]) -> None:
    figure.set_size_inches(12, 3.6)
    for axes, (name, found) in zip(figure.subplots(1, len(series)), series.items(), strict=True):
        for part, style in (("image", "."), ("rows", "+")):
            points = np.asarray(found[part])
            axes.plot(*points.T, style, markersize=2 if part == "image" else 4, label=part)
        axes.set(title=name, aspect="equal")
        axes.legend(fontsize=7)


# Figure 6 -----------------------------------------------------------------------------------------


def figure_6(setting: Setting) -> Outcome:
    """Pass held-out eights through the layers of a deep hull of 1000 eights."""
    split = images(setting)
    rows = split.X[split.y == EIGHT].astype(np.float64)
    chosen = check_random_state(0).permutation(len(rows))[:1000]
    queries = split.X_test[split.y_test == EIGHT][:50].astype(np.float64)
    setting.tell(f"a deep hull of {len(chosen)} eights")
    hull = DeepAffineHull(n_components=20, n_layers=20).fit(rows[chosen])
    found = np.asarray(hull.layer_images(queries))
    away = np.linalg.norm(found - queries[:, None], axis=2)
    variety = found.std(axis=0).mean(axis=1)
    nearest = np.asarray(hull.transform(queries))
    claims = {
        "the last layer is farther from the point than the first": away[:, -1].mean()
        > away[:, 0].mean(),
        "images of different points differ less in the last layer than in the first": variety[-1]
        < variety[0],
        "the output is the nearest of all layers": bool(
            np.allclose(np.linalg.norm(nearest - queries, axis=1), away.min(axis=1), rtol=1e-6)
        ),
    }
    series = {
        "side": round(queries.shape[1] ** 0.5),
        "points": queries[:SHOWN].round(2).tolist(),
        "numbers": list(range(1, 21, 3)),
        "layers": found[:SHOWN, ::3].round(2).tolist(),
        "outputs": nearest[:SHOWN].round(2).tolist(),
        "mean distance by layer": away.mean(axis=0).round(5).tolist(),
        "variety by layer": variety.round(5).tolist(),
    }
    return Outcome((), claims, series, _draw_layers, (NO_NUMBERS,))


def _draw_layers(figure: Any, series: Mapping[str, Any]) -> None:
    figure.set_size_inches(11, 4.6)
    titles = ["point", *(f"layer {number}" for number in series["numbers"]), "output"]
    axes = figure.subplots(len(series["points"]), len(titles))
    for row, point in enumerate(series["points"]):
        shown = [point, *series["layers"][row], series["outputs"][row]]
        for one, picture, title in zip(axes[row], shown, titles, strict=True):
            one.imshow(np.reshape(picture, (series["side"], -1)), cmap="gray_r", vmin=0, vmax=1)
            one.set_axis_off()
            one.set_title(title if row == 0 else "", fontsize=8)


# Figure 8 -----------------------------------------------------------------------------------------


def figure_8(setting: Setting) -> Outcome:
    """Classify three groups in the plane and colour it by the distance to the nearest hull."""
    rows, labels = make_blobs(4 * ROWS, centers=3, cluster_std=0.8, random_state=3)
    rows = _in_the_square(rows)
    model = AffineHullClassifier(n_components=2, n_layers=1, random_state=0)
    model.fit(rows[: 2 * ROWS], labels[: 2 * ROWS])
    side = GRID // 2 if setting.quick else 2 * GRID
    grid = square(side)
    distances = np.asarray(model.distances(grid)).min(axis=1)
    at_rows = np.asarray(model.distances(rows[: 2 * ROWS])).min(axis=1)
    accuracy = model.score(rows[2 * ROWS :], labels[2 * ROWS :])
    claims = {
        "the nearest hull finds more than 95 % of the labels of new rows": accuracy > 0.95,
        "the distance is small at the rows and large away from them": float(np.median(at_rows))
        < float(np.median(distances)),
    }
    finite = np.where(np.isfinite(distances), distances, distances[np.isfinite(distances)].max())
    series = {
        "rows": rows[: 2 * ROWS].round(4).tolist(),
        "labels": labels[: 2 * ROWS].tolist(),
        "distances": finite.reshape(side, side).round(4).tolist(),
        "accuracy": accuracy,
    }
    return Outcome((), claims, series, _draw_distances, (NO_NUMBERS,))


def _draw_distances(figure: Any, series: Mapping[str, Any]) -> None:
    figure.set_size_inches(6.4, 5)
    axes = figure.add_subplot()
    frame = (-0.25, 1.25, -0.25, 1.25)
    shown = axes.imshow(series["distances"], origin="lower", extent=frame, cmap="viridis")
    figure.colorbar(shown, ax=axes, label="distance to the nearest hull")
    rows, labels = np.asarray(series["rows"]), np.asarray(series["labels"])
    for label in np.unique(labels):
        axes.plot(*rows[labels == label].T, "+", markersize=4, label=f"class {label}")
    axes.legend(fontsize=8)


ENTRIES = (
    Entry("kahm", "figure-4", "Images of the plane under hulls of rows in it", figure_4),
    Entry(
        "kahm",
        "figure-6",
        "Eights through the layers of a deep hull",
        figure_6,
        data="MNIST; quick: 8 x 8 digits",
    ),
    Entry("kahm", "figure-8", "Distance to the nearest of three hulls in the plane", figure_8),
)
