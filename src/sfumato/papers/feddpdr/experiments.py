"""Figures 2 to 5 of the paper on federated support vector machines: accuracy of four methods.

The figures are pictures without numbers; what is judged are the sentences printed about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.core.parallel import map_in_parallel
from sfumato.papers.data import Split, images, unit_rows
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting
from sfumato.papers.feddpdr.methods import METHODS, RAW, STRICT, UNIT, Federation
from sfumato.papers.pictures import draw_lines

WAYS = (RAW, UNIT, STRICT)
SLACK = 0.01  # two methods this near are called equal
FEWER = 42  # times fewer rows in a quick run: five parties fit into the embedded digits
NEAR = 0.05  # what "close to Non-Priv" is taken to mean
Curves = dict[str, dict[str, list[float]]]  # way -> method -> one accuracy a point


@dataclass(frozen=True)
class Point:
    """One place on the axis of a figure; what is not said is as in the paper."""

    at: str
    epsilon: float = 0.1
    components: int = 20
    sizes: tuple[int, ...] = (10_000,) * 5

    def small(self) -> Point:
        """Return the same with fewer rows and as much larger epsilon: as much noise by signal."""
        sizes = tuple(max(10, size // FEWER) for size in self.sizes)
        return replace(self, sizes=sizes, epsilon=FEWER * self.epsilon)


DIMENSIONS = [Point(str(k), components=k) for k in (5, 10, 20, 50, 100)]
BUDGETS = [Point(f"{epsilon:g}", epsilon=epsilon) for epsilon in (0.01, 0.05, 0.1, 0.5, 1.0, 2.0)]
NUMBERS = [Point(str(n), sizes=(n,) * 5) for n in (100, 500, 1000, 5000, 10_000)]
UNEVEN = [
    Point("0.05 to 2 thousand", sizes=(50, 100, 500, 1000, 2000)),
    Point("0.1 to 10 thousand", sizes=(100, 500, 1000, 5000, 10_000)),
    Point("0.1 to 10, more large", sizes=(100, 1000, 5000, 8000, 10_000)),
]
FIGURES: dict[str, tuple[str, list[Point]]] = {
    "figure-2": ("target dimension k", DIMENSIONS),
    "figure-3": ("epsilon", BUDGETS),
    "figure-4": ("rows of a party", NUMBERS),
    "figure-5": ("rows of the parties", UNEVEN),
}
QUICK_TASK = "digits"
TASKS: dict[str, tuple[str, Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "MNIST": ("mnist", lambda y: y % 2),
    "Fashion-MNIST": ("fashion-mnist", lambda y: (y > 4).astype(int)),
}


# Runs --------------------------------------------------------------------------------------------


def accuracies(split: Split, point: Point, seed: int, known: dict[Any, float]) -> Curves:
    """Return the accuracy of each way and method at one point; `known` has equal ones."""
    order = check_random_state(seed).permutation(len(split.y))[: sum(point.sizes)]
    parts = np.split(order, np.cumsum(point.sizes)[:-1])
    found: Curves = {}
    for way in WAYS:
        treat = (lambda rows: rows.astype(np.float64)) if way == RAW else unit_rows
        parties = [(treat(split.X[part]), split.y[part]) for part in parts]
        federation = Federation(parties, way, point.epsilon, point.components)
        test = treat(split.X_test)
        found[way] = {}
        for method in METHODS:
            key = (way, method, _what_matters(method, point), seed)
            if key not in known:
                scores = [np.mean(rule(test) == split.y_test) for rule in federation.learn(method)]
                known[key] = float(np.mean(scores))
            found[way][method] = [known[key]]
    return found


def _what_matters(method: str, point: Point) -> tuple[Any, ...]:
    """What a method depends on: DPML knows no dimension, Non-Priv no budget."""
    kept = 0 if method == "DPML" else point.components
    return (point.sizes, kept, 0.0 if method == "Non-Priv" else point.epsilon)


def curves(split: Split, points: Sequence[Point], setting: Setting) -> Curves:
    """Return the mean accuracy over runs, one per point; runs are independent."""
    run = partial(_run, split, points, setting.tell)
    runs = map_in_parallel(run, range(setting.runs), n_jobs=setting.n_jobs)
    return {
        way: {method: _mean([found[way][method] for found in runs]) for method in METHODS}
        for way in WAYS
    }


def _run(split: Split, points: Sequence[Point], tell: Callable[[str], None], seed: int) -> Curves:
    """Return the accuracies of one run, one per point."""
    known: dict[Any, float] = {}
    total: Curves = {way: {method: [] for method in METHODS} for way in WAYS}
    for point in points:
        tell(f"{point.at}, run {seed + 1}")
        for way, found in accuracies(split, point, seed, known).items():
            for method, accuracy in found.items():
                total[way][method] += accuracy
    return total


def _mean(lines: Sequence[Sequence[float]]) -> list[float]:
    return [round(float(mean), 4) for mean in np.mean(lines, axis=0)]


def _split(setting: Setting, task: str) -> Split:
    name, relabel = TASKS[task]
    split = images(setting, name)
    return replace(split, y=relabel(split.y), y_test=relabel(split.y_test))


# Judgement ---------------------------------------------------------------------------------------


def judged(name: str, found: Mapping[str, Sequence[float]]) -> dict[str, bool]:
    """Judge the sentences that are printed about a figure by the curves of the four methods."""
    plain, alone, reduced, federated = (np.array(found[method]) for method in METHODS)
    better = {
        "DPDR-DPML is more accurate than DPML": bool((reduced > alone - SLACK).all()),
        "FedDPDR-DPML is more accurate than DPML": bool((federated > alone - SLACK).all()),
    }
    near = {"FedDPDR-DPML is close to Non-Priv": bool((federated > plain - NEAR).all())}
    if name == "figure-2":
        return better | {"accuracy rises with the dimension k": _rises(reduced, federated)}
    if name == "figure-4":
        return better | {
            "accuracy rises with the number of rows": _rises(alone, reduced, federated)
        }
    return better | near


def _rises(*lines: NDArray[np.float64]) -> bool:
    return all(bool((np.diff(line) > -SLACK).all()) and line[-1] > line[0] for line in lines)


def figure(setting: Setting, name: str) -> Outcome:
    """Run one figure, on two sets of images."""
    axis, points = FIGURES[name]
    tasks = list(TASKS)
    if setting.quick:
        few = [point.small() for point in points if point.components < 64]  # pixels
        tasks, points = tasks[:1], few[::2]
    series: dict[str, Any] = {"axis": axis, "at": [point.at for point in points], "curves": {}}
    for task in tasks:
        found = curves(_split(setting, task), points, setting)
        series["curves"][QUICK_TASK if setting.quick else task] = found
    claims = {
        f"{task}: {claim}": holds
        for task, found in series["curves"].items()
        for claim, holds in judged(name, found[RAW]).items()
    }
    return Outcome(_comparisons(series), claims, series, draw, REMARKS)


def _comparisons(series: Mapping[str, Any]) -> tuple[Comparison, ...]:
    return tuple(
        Comparison(
            f"{task}, {at}, {method}",
            None,
            found[RAW][method][i],
            found[STRICT][method][i],
        )
        for task, found in series["curves"].items()
        for i, at in enumerate(series["at"])
        for method in METHODS
    )


def draw(figure: Any, series: Mapping[str, Any]) -> None:
    """One row of panels a data set, one panel a way, one line a method."""
    figure.set_size_inches(10, 1.2 + 2.8 * len(series["curves"]))
    panels = figure.subplots(len(series["curves"]), len(WAYS), sharey="row", squeeze=False)
    places = list(range(len(series["at"])))
    for row, (task, found) in zip(panels, series["curves"].items(), strict=True):
        for axes, way in zip(row, WAYS, strict=True):
            draw_lines(axes, places, found[way])
            axes.set_xticks(places, series["at"], fontsize=7, rotation=15)
            axes.set_title(f"{task}\n{way}", fontsize=8)
            axes.set_xlabel(series["axis"], fontsize=8)
            axes.get_legend().remove()
        row[0].set_ylabel("accuracy")
    panels[0][0].legend(fontsize=7)


REMARKS = (
    "The figures are pictures, so no accuracy is printed; the sentences about them are judged, for "
    "the algorithms as printed on raw pixels, which come nearest to them.",
    "With rows inside the unit ball, as the paper assumes, the printed algorithms are near chance "
    "at epsilon 0.1; these accuracies are in the series and in the picture.",
    "Two classes, as the paper's formulation has them: even and odd digits, the first and the last "
    "five of Fashion-MNIST. CIFAR-10 is left out: 20,000 rows are too few for five parties.",
    f"A quick run has {FEWER} times fewer rows and {FEWER} times the epsilon: as much noise by "
    "signal.",
)
BROKEN = (
    "Raw pixels are up to 17 long while the noise is drawn for rows of length 1, so nothing is "
    "promised."
)
DATA = "MNIST and Fashion-MNIST; quick: the 8 x 8 digits"
ENTRIES = tuple(
    Entry(
        "feddpdr",
        name,
        f"Accuracy of four linear classifiers over the {axis}",
        partial(figure, name=name),
        broken=BROKEN,
        data=DATA,
        minutes="about 10, one core",
    )
    for name, (axis, _) in FIGURES.items()
)
