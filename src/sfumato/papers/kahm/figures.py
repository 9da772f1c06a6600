"""Figures of the hull paper that print no numbers: rows and hulls in the plane, and digits.

Each is judged by what it is there to show; the rows of the paper's pictures are not given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from sfumato.models.hulls import (
    AffineHullClassifier,
    DeepAffineHull,
    KernelAffineHull,
    WideAffineHull,
)
from sfumato.papers.data import images
from sfumato.papers.entry import Entry, Outcome, Setting, claims_of
from sfumato.papers.kahm.experiments import BROKEN, IMAGES
from sfumato.papers.kahm.smoothing import smoothing_pass
from sfumato.papers.kahm.systems import (
    EntryFabricator,
    PrintedAffineHullClassifier,
    PrintedFabricator,
)
from sfumato.tables.bounds import Bounds

Rows = NDArray[Any]
Panels = dict[str, dict[str, Rows]]
SMALL: dict[str, Any] = {  # a change of 0.05 is protected, so that rows stay visible
    "epsilon": 1.0,
    "delta": 1e-5,
    "entry_bound": 0.05,
    "bounds": Bounds(lower=0.0, upper=1.0, labels=range(3)),
    "random_state": 0,
}
N_ROWS, EIGHT, DRAWS = 150, 8, 10
GENERATED = "generated"


def plane_sets() -> dict[str, Rows]:
    """Return some rows in the unit square."""
    turn = np.linspace(0.0, 3 * np.pi, N_ROWS)
    sets = {
        "spiral": np.column_stack([turn * np.cos(turn), turn * np.sin(turn)]),
        "moons": make_moons(N_ROWS, noise=0.04, random_state=0)[0],
        "circle": make_circles((N_ROWS, 0), noise=0.03, random_state=0)[0],
        "three groups": make_blobs(N_ROWS, random_state=0, cluster_std=0.9)[0],
    }
    return {name: (rows - rows.min(axis=0)) / np.ptp(rows, axis=0) for name, rows in sets.items()}


def grid(side: int = 40) -> Rows:
    """Return points over the unit square and a margin around it."""
    line = np.linspace(-0.25, 1.25, side)
    return np.column_stack([axis.ravel() for axis in np.meshgrid(line, line)])


def noise_and_smoothing(setting: Setting) -> tuple[Panels, dict[str, bool]]:
    """Figure 1: rows of the plane, noisy, and fabricated from them."""
    panels: Panels = {}
    gaps = {}
    noise, maker = EntryFabricator(2, n_smoothing=0, **SMALL), PrintedFabricator(2, **SMALL)
    for name, rows in plane_sets().items():
        setting.tell(name)
        errors = []
        for _ in range(DRAWS):
            noisy, made = noise.fit(rows).fabricate(), maker.fit(rows).fabricate()
            errors.append([smoothing_pass(Y, n_components=2).error for Y in (rows, noisy, made)])
        before, during, after = np.transpose(errors)
        gaps[f"{name}: noise raises the modelling error (79)"] = during - before
        gaps[f"{name}: that of fabricated rows is below that of the rows"] = before - after
        panels[name] = {"rows": rows, "noisy": noisy, "fabricated": made}
    return panels, claims_of(gaps)


def images_of_space(setting: Setting, n_features: int) -> tuple[Panels, dict[str, bool]]:
    """Figures 2 and 4: images of space, or of the plane, under hulls of rows in it."""
    sets, around = plane_sets(), grid()
    if n_features == 3:
        turn, ball = np.linspace(0, 1, 600), check_random_state(0).normal(size=(600, 3))
        round_ = 0.5 + ball / np.linalg.norm(ball, axis=1, keepdims=True) / 2
        helix = np.column_stack([np.cos(12 * turn) / 2 + 0.5, np.sin(12 * turn) / 2 + 0.5, turn])
        sets, around = {"helix": helix, "sphere": round_}, check_random_state(1).rand(500, 3)
    panels: Panels = {}
    gaps = {}
    for name, rows in sets.items():
        setting.tell(name)
        hull = KernelAffineHull(n_features).fit(rows)
        points = around[np.isfinite(np.asarray(hull.distance(around)))]
        image = np.asarray(hull.transform(points))
        near = NearestNeighbors(n_neighbors=1).fit(rows)
        first, then = (near.kneighbors(each)[0][:, 0] for each in (points, image))
        gaps[f"{name}: images lie nearer to the rows than the points themselves"] = first - then
        panels[name] = {"image": image, "rows": rows}
    return panels, claims_of(gaps)


def distance_map(setting: Setting, model: Any) -> tuple[Panels, dict[str, bool]]:
    """Figures 3 and 8: the plane by its distance to the nearest of three hulls."""
    rows, labels = make_blobs(4 * N_ROWS, centers=3, cluster_std=0.8, random_state=3)
    rows, half = (rows - rows.min(axis=0)) / np.ptp(rows, axis=0), 2 * N_ROWS
    setting.tell("three hulls")
    model = model.fit(rows[:half], labels[:half])
    points = grid(80)
    away = np.asarray(model.distances(points)).min(axis=1)
    at_rows = np.asarray(model.distances(rows[:half])).min(axis=1)
    levels = np.quantile(away[np.isfinite(away)], [0.1, 0.3])
    panel = {f"distance at most {level:.2g}": points[away <= level] for level in levels[::-1]}
    panel |= {f"class {c}": rows[:half][labels[:half] == c] for c in range(3)}
    claim = "the distance is smaller at the rows than over the plane"
    return {"nearest hull": panel}, {claim: bool(np.median(at_rows) < np.median(away))}


def eights(setting: Setting) -> Rows:
    """Return 1000 images of the digit 8."""
    split = images(setting)
    rows = split.X[split.y == EIGHT].astype(np.float64)
    return np.asarray(rows[check_random_state(0).permutation(len(rows))[:1000]])


def layers(setting: Setting) -> tuple[Panels, dict[str, bool]]:
    """Figure 6: an eight, its images under some of 20 layers, and the nearest of all."""
    rows = eights(setting)
    setting.tell("20 layers")
    hull = DeepAffineHull(20, n_layers=20).fit(rows)
    each = np.asarray(hull.layer_images(rows))
    shown = np.vstack([rows[:1], each[0, [0, 6, 13, 19]], np.asarray(hull.transform(rows[:1]))])
    away = np.linalg.norm(each - rows[:, None, :], axis=2)
    panels = {"a row, layers 1, 7, 14 and 20, the nearest": {"": shown.clip(0, 1).round(2)}}
    farther = away[:, -1] - away[:, 0]
    return panels, claims_of({"the last layer is farther off than the first": farther})


def fabricated_eights(setting: Setting) -> tuple[Panels, dict[str, bool]]:
    """Figure 9: eights fabricated by epsilon and n."""
    rows = eights(setting)
    panels: Panels = {"rows": {"": rows[:5].round(2)}}
    lost = {}
    for epsilon, n in ((1, 3), (1, 20), (3, 10), (8, 5), (16, 3), (16, 20)):
        setting.tell(f"epsilon {epsilon}, n {n}")
        box = Bounds(lower=0.0, upper=1.0)
        maker = PrintedFabricator(n, epsilon=epsilon, delta=1e-5, bounds=box, random_state=0)
        made = maker.fit(rows).fabricate()
        panels[f"epsilon {epsilon}, n {n}"] = {"": made[:5].clip(0, 1).round(2)}
        lost[epsilon, n] = np.linalg.norm(made - rows, axis=1)
    gaps = {f"n {n}: a smaller epsilon masks more": lost[1, n] - lost[16, n] for n in (3, 20)}
    return panels, claims_of(gaps | {"a smaller n masks more": lost[16, 3] - lost[16, 20]})


def merged(setting: Setting) -> tuple[Panels, dict[str, bool]]:
    """Figure 10: hulls of three sets of rows as one."""
    setting.tell("three hulls")
    names = list(plane_sets())[1:]
    parts = [plane_sets()[name] + [1.3 * i, 0.0] for i, name in enumerate(names)]
    hulls = [WideAffineHull(2, n_layers=1, random_state=0).fit(rows) for rows in parts]
    whole, points = hulls[0].merge(*hulls[1:]), grid() * [3.0, 1.0] + [0.5, 0.0]
    apart = np.min([np.asarray(hull.distance(points)) for hull in hulls], axis=0)
    same = np.allclose(np.asarray(whole.distance(points)), apart, rtol=1e-9)
    panels = {
        "three hulls": {
            name: np.asarray(hull.transform(rows))
            for name, hull, rows in zip(names, hulls, parts, strict=True)
        },
        "one of all": {"image": np.asarray(whole.transform(points))},
    }
    return panels, {"the distance to the whole is the least of those to its parts": bool(same)}


def figure(setting: Setting, show: Callable[[Setting], tuple[Panels, dict[str, bool]]]) -> Outcome:
    """Run one figure: its points as JSON, and its claims."""
    panels, claims = show(setting)
    series = {
        title: {name: np.asarray(points).round(4).tolist() for name, points in sets.items()}
        for title, sets in panels.items()
    }
    return Outcome((), claims, series, (NO_NUMBERS,))


NO_NUMBERS = (
    "The paper shows a picture and prints no figure; the rows of its picture are not given."
)
_PLAIN = AffineHullClassifier(n_components=2, n_layers=1, random_state=0)
_MADE = PrintedAffineHullClassifier(2, n_layers=1, **SMALL)
_SHOWN: tuple[tuple[int, str, Any, str | None, str], ...] = (
    (1, "Noisy and fabricated rows of the plane", noise_and_smoothing, BROKEN, GENERATED),
    (2, "Images of space under hulls", partial(images_of_space, n_features=3), None, GENERATED),
    (3, "Distance to hulls of made rows", partial(distance_map, model=_MADE), BROKEN, GENERATED),
    (4, "Images of the plane under hulls", partial(images_of_space, n_features=2), None, GENERATED),
    (6, "An eight through the layers of a hull", layers, None, IMAGES),
    (8, "Distance to three hulls", partial(distance_map, model=_PLAIN), None, GENERATED),
    (9, "Fabricated eights, by epsilon and n", fabricated_eights, BROKEN, IMAGES),
    (10, "Hulls of three sets of rows as one", merged, None, GENERATED),
)
ENTRIES = tuple(
    Entry("kahm", f"figure-{number}", title, partial(figure, show=show), broken, data)
    for number, title, show, broken, data in _SHOWN
)
