"""How good fabricated rows are: beside the tables that were released, or beside raw rows.

Released counts may be read as often as one likes. Figures measured on raw rows are not private:
they are for the owner of the rows, and the page says so on every part of it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from sfumato.exceptions import InvalidInputError
from sfumato.report import Marginal, charts
from sfumato.report.pages import render, write_form
from sfumato.synthetic.cells import MAX_CATEGORIES, CellPlaces
from sfumato.synthetic.fabricator import Fabricator
from sfumato.synthetic.label_tree import LabelTree
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

MAX_TRAINING_ROWS = 20_000  # rows from which learners learn
SENSITIVE = "SENSITIVE: measured on raw rows. These figures are not private; do not hand them out."
FREE = "Compared with released counts; costs no further budget."


@dataclass(frozen=True)
class PairDistance:
    """Two columns: how far their table is from the reference, and their correlation in both.

    columns: Names.
    distance: Total variation.
    reference_correlation, correlation: Of the numbers of the cells.
    """

    columns: tuple[str, str]
    distance: float
    reference_correlation: float
    correlation: float


@dataclass(frozen=True)
class Quality:
    """Figures about fabricated rows.

    sensitive: Whether the reference are raw rows; else it is what was released.
    n_rows: Fabricated rows.
    promise: What the fabricator guarantees.
    noise: Expected total variation of a released column from the exact one, by its noise alone.
    marginals: Shares of cells of each column, the label last; "real" is the reference.
    pairs: Pairs of columns.
    learners: Accuracy of each learner, by the rows it has learned from.
    copies: Share of rows that equal a raw row; only where raw rows were given.
    """

    sensitive: bool
    n_rows: int
    promise: str
    noise: float | None
    marginals: tuple[Marginal, ...]
    pairs: tuple[PairDistance, ...]
    learners: dict[str, dict[str, float]]
    copies: dict[str, float]

    @property
    def one_way(self) -> float:
        """Mean total variation of the columns."""
        return float(np.mean([each.distance for each in self.marginals]))

    @property
    def two_way(self) -> float | None:
        """Mean total variation of the pairs."""
        return float(np.mean([each.distance for each in self.pairs])) if self.pairs else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        mark = SENSITIVE if self.sensitive else FREE
        return {"mark": mark, "one_way": self.one_way, "two_way": self.two_way, **asdict(self)}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a page (.html) or JSON (.json)."""
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        write_form(path, {".html": self._page, ".json": lambda: text})

    def figures(self) -> list[tuple[str, str]]:
        """Return the figures in words and numbers."""
        found = [("fabricated rows", str(self.n_rows)), ("one-way distance", f"{self.one_way:.4f}")]
        if self.noise is not None:
            found.append(("expected error of released columns from noise", f"{self.noise:.4f}"))
        if self.two_way is not None:
            off = [abs(p.correlation - p.reference_correlation) for p in self.pairs]
            found.append(("two-way distance", f"{self.two_way:.4f}"))
            found.append(("average error of correlations", f"{np.mean(off):.4f}"))
            found.append(("correlations off by, at most", f"{np.max(off):.4f}"))
        for learner, scores in self.learners.items():
            found += [(f"{learner}, learned from {rows}", f"{s:.4f}") for rows, s in scores.items()]
        return found + [(name, f"{share:.4f}") for name, share in self.copies.items()]

    def _page(self) -> str:
        off = {p.columns: abs(p.correlation - p.reference_correlation) for p in self.pairs}
        measures = {
            "Two-way distance": {p.columns: p.distance for p in self.pairs},
            "Correlation off by": off,
        }
        worst = sorted(self.pairs, key=lambda each: -each.distance)[:20]
        return render(
            "quality.html",
            title="Quality of fabricated rows",
            quality=self,
            mark=SENSITIVE if self.sensitive else FREE,
            columns=[each.column for each in self.marginals],
            matrices=list(measures.items()) if self.pairs else [],
            worst=[(" × ".join(p.columns), f"{p.distance:.4f}") for p in worst],
            draw=charts,
        )


# Measuring ----------------------------------------------------------------------------------------


def measured_quality(model: Fabricator, made: Any, raw: Any = None) -> Quality:
    """Measure fabricated rows, against what was released, or against raw rows where given."""
    tree = model.released_tree()
    bounds, n_columns = tree.bounds, tree.fine.width
    names = [feature.name for feature in bounds.features]
    sizes, labels = list(tree.cells.sizes), [_cell_names(tree, i) for i in range(n_columns)]
    if tree.n_classes > 1 and bounds.target is not None:
        names, sizes = [*names, bounds.target.name], [*sizes, tree.n_classes]
        labels.append(tuple(map(str, model.classes_)))
    # The cells of each row, alone (fine) and in pairs, and its class
    cells: dict[str, NDArray[np.intp]] = {}
    fine: dict[str, NDArray[np.intp]] = {}
    for which, rows in {"made": made, "raw": raw}.items():
        if rows is not None:
            places = CellPlaces(tree.fine.columns)(bounds.cells(rows))
            target, codes = bounds.target_of(rows), np.zeros(len(places), dtype=np.intp)
            if hasattr(model, "classes_") and target is not None:
                codes = np.searchsorted(model.classes_, target)
            for into, kind in ((cells, tree.cells), (fine, tree.fine)):
                numbers = np.column_stack([np.asarray(kind(places)).astype(np.intp), codes])
                into[which] = numbers[:, : len(names)]
            if not len(places):
                raise InvalidInputError("A table without rows has no quality to measure.")

    def shares(rows: NDArray[np.intp], columns: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        flat = np.ravel_multi_index(tuple(rows[:, columns].T), shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape) / len(rows)

    marginals = []
    for i, name in enumerate(names):
        shape = (len(labels[i]),)
        if raw is not None:
            real = shares(fine["raw"], (i,), shape)
        else:
            real = tree.shares if i == n_columns else tree.fine_margins[i].sum(axis=1)
        found = shares(fine["made"], (i,), shape)
        marginals.append(Marginal(name, labels[i], tuple(real.tolist()), tuple(found.tolist())))
    joint: dict[tuple[int, int], Array] = {}
    if raw is not None:
        for i, j in combinations(range(len(names)), 2):
            joint[i, j] = shares(cells["raw"], (i, j), (sizes[i], sizes[j]))
    else:  # the pairs that were released; with the label, those of each column
        for key, tables in (("tree", tree.pairs), ("seconds", tree.more_pairs)):
            listed = tree.released[key].tolist()
            joint |= {(i, j): t.sum(axis=2) for (i, j), t in zip(listed, tables, strict=True)}
        if len(names) > n_columns:
            joint |= {(i, n_columns): margin for i, margin in enumerate(tree.margins)}
    pairs = []
    for (i, j), real in joint.items():
        found = shares(cells["made"], (i, j), (sizes[i], sizes[j]))
        away = float(np.abs(found - real).sum() / 2)
        both = _correlation(real), _correlation(found)
        pairs.append(PairDistance((names[i], names[j]), away, *both))
    noise = None
    if raw is None:  # mean total variation by the noise of a column alone, classes added up
        each = float(tree.released["noise"][0]) * np.sqrt(tree.n_classes)
        noise = float(np.mean(tree.fine.sizes) * each * np.sqrt(2 / np.pi) / 2 / tree.n_rows)
    return Quality(
        raw is not None,
        len(cells["made"]),
        str(model.guarantee_),
        noise,
        tuple(marginals),
        tuple(pairs),
        _learned(bounds, made, raw) if hasattr(model, "classes_") else {},
        {} if raw is None else _copies(bounds, made, raw),
    )


def _correlation(joint: Array) -> float:
    """Correlation of the numbers of the cells of two columns."""
    places = [np.arange(size) for size in joint.shape]
    sums = [joint.sum(axis=1), joint.sum(axis=0)]
    means = [float(p @ s) for p, s in zip(places, sums, strict=True)]
    spread = [float((p - m) ** 2 @ s) for p, m, s in zip(places, means, sums, strict=True)]
    both = float((places[0] - means[0]) @ joint @ (places[1] - means[1]))
    return both / np.sqrt(spread[0] * spread[1]) if min(spread) > 0 else 0.0


def _cell_names(tree: LabelTree, column: int) -> tuple[str, ...]:
    """Return the names of the cells of a column."""
    feature, edges = tree.bounds.features[column], tree.fine.edges[column]
    cells, size = tree.fine.columns[column], tree.fine.sizes[column] - feature.missing
    if edges is None:
        found = [str(each) for each in (feature.categories or ())[:size]]
        found[-1] = "others" if cells.n_categories > MAX_CATEGORIES else found[-1]
    else:
        starts = np.array(edges[:-1])
        starts = feature.unscaled(np.ceil(starts) if cells.is_whole else starts)
        is_day = feature.part == "time"  # days since 1970
        found = [str(np.datetime64(int(s), "D")) if is_day else f"{s + 0:.6g}" for s in starts]
    return (*found, "missing") if feature.missing else tuple(found)


def _learned(bounds: TableBounds, made: Any, raw: Any) -> dict[str, dict[str, float]]:
    """Score learners on rows that they have not seen: raw ones where some were given."""
    if bounds.target_of(made) is None:
        return {}
    encoder = TableEncoder(bounds)
    tables = {"fabricated rows": made, **({} if raw is None else {"raw rows": raw})}
    rows = {n: (encoder.transform(t), np.asarray(bounds.target_of(t))) for n, t in tables.items()}
    generator = np.random.RandomState(0)
    halves = {name: generator.permutation(len(x)) for name, (x, _) in rows.items()}
    tested = "raw rows" if raw is not None else "fabricated rows"
    test = halves[tested][len(halves[tested]) // 2 :][:MAX_TRAINING_ROWS]
    found: dict[str, dict[str, float]] = {}
    for name, learner in (
        ("forest", RandomForestClassifier(50, random_state=0, n_jobs=1)),
        ("logistic regression", LogisticRegression(max_iter=300)),
    ):
        found[name] = {}
        for source, (x, y) in rows.items():
            learn = halves[source][: max(1, len(x) // 2)][:MAX_TRAINING_ROWS]
            if len(np.unique(y[learn])) < 2 or not len(test):
                continue
            learner.fit(x[learn], y[learn])
            score = learner.score(rows[tested][0][test], rows[tested][1][test])
            found[name][source] = float(score)
    return found


def _copies(bounds: TableBounds, made: Any, raw: Any) -> dict[str, float]:
    """Share of rows that equal a raw one in all cells; raw rows among themselves beside it."""
    cells = [np.nan_to_num(bounds.cells(each), nan=-1e300) for each in (made, raw)]
    half = len(cells[1]) // 2
    known = {row.tobytes() for row in cells[1][:half]}
    shown = {
        "fabricated rows that equal one of half of the raw rows": cells[0],
        "raw rows of the other half that do": cells[1][half:],
    }
    return {
        words: float(np.mean([row.tobytes() in known for row in rows])) if len(rows) else 0.0
        for words, rows in shown.items()
    }
