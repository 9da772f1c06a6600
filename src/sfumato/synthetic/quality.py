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
from sfumato.synthetic.fabricator import Fabricator
from sfumato.synthetic.table_cells import TableCells
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

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
        forms = {
            ".html": self._page,
            ".json": lambda: json.dumps(self.to_dict(), indent=2) + "\n",
        }
        write_form(path, forms)

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
    """Measure fabricated rows."""
    table, tree = model.released_tree()
    bounds = table.bounds
    mine = _cells(model, made, tree.cells)
    reference = None if raw is None else _cells(model, raw, tree.cells)
    if not len(mine) or (reference is not None and not len(reference)):
        raise InvalidInputError("A table without rows has no quality to measure.")
    names = [*(feature.name for feature in bounds.features)]
    sizes = list(tree.cells.sizes)
    if tree.n_classes > 1 and bounds.target is not None:
        names, sizes = [*names, bounds.target.name], [*sizes, tree.n_classes]
    else:
        mine = mine[:, :-1]
        reference = None if reference is None else reference[:, :-1]
    marginals = _marginals(model, names, made, raw)
    joint = _joint(tree, mine.shape[1]) if reference is None else _counted(reference, sizes)
    pairs = tuple(_pair(names, mine, sizes, i, j, real) for (i, j), real in joint.items())
    noise = None if raw is not None else _expected(tree)
    return Quality(
        raw is not None,
        len(mine),
        str(model.guarantee_),
        noise,
        marginals,
        pairs,
        _learned(model, made, raw),
        {} if raw is None else _copies(bounds, made, raw),
    )


def _marginals(model: Fabricator, names: list[str], made: Any, raw: Any) -> tuple[Marginal, ...]:
    """Compare each column in the cells in which it was counted by itself."""
    _, tree = model.released_tree()
    mine = _cells(model, made, tree.fine)
    reference = None if raw is None else _cells(model, raw, tree.fine)
    found = []
    for column, name in enumerate(names):
        labels, is_label = _labels(model, column), column == tree.fine.width
        if reference is not None:
            real = _shares(reference[:, [column]], (len(labels),))
        else:
            real = tree.shares if is_label else tree.fine_margins[column].sum(axis=1)
        shares = _shares(mine[:, [column]], (len(labels),))
        found.append(Marginal(name, labels, tuple(real.tolist()), tuple(shares.tolist())))
    return tuple(found)


def _cells(model: Fabricator, rows: Any, cells_of: TableCells) -> Codes:
    """Return the numbers of the cells of each row, and of its class."""
    table, _ = model.released_tree()
    cells = np.asarray(cells_of(table.places(table.bounds.cells(rows)))).astype(np.intp)
    labels = table.bounds.target_of(rows)
    codes = np.zeros(len(cells), dtype=np.intp)
    if hasattr(model, "classes_") and labels is not None:
        codes = np.searchsorted(model.classes_, labels)
    return np.column_stack([cells, codes])


def _shares(cells: Codes, shape: tuple[int, ...]) -> Array:
    flat = np.ravel_multi_index(tuple(cells.T), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape) / len(cells)


def _joint(tree: Any, width: int) -> dict[tuple[int, int], Array]:
    """Masses of the pairs that were released; with the label, those of each column."""
    found: dict[tuple[int, int], Array] = {}
    for pairs, tables in (
        (tree.released.tree, tree.pairs),
        (tree.released.seconds, tree.more_pairs),
    ):
        found |= {(i, j): t.sum(axis=2) for (i, j), t in zip(pairs.tolist(), tables, strict=True)}
    if width > tree.cells.width:
        found |= {(i, width - 1): margin for i, margin in enumerate(tree.margins)}
    return found


def _counted(cells: Codes, sizes: list[int]) -> dict[tuple[int, int], Array]:
    return {
        (i, j): _shares(cells[:, [i, j]], (sizes[i], sizes[j]))
        for i, j in combinations(range(len(sizes)), 2)
    }


def _pair(
    names: list[str], cells: Codes, sizes: list[int], i: int, j: int, real: Array
) -> PairDistance:
    found = _shares(cells[:, [i, j]], (sizes[i], sizes[j]))
    away = float(np.abs(found - real).sum() / 2)
    return PairDistance((names[i], names[j]), away, _correlation(real), _correlation(found))


def _correlation(joint: Array) -> float:
    """Correlation of the numbers of the cells of two columns."""
    places = [np.arange(size) for size in joint.shape]
    sums = [joint.sum(axis=1), joint.sum(axis=0)]
    means = [float(p @ s) for p, s in zip(places, sums, strict=True)]
    spread = [float((p - m) ** 2 @ s) for p, m, s in zip(places, means, sums, strict=True)]
    both = float((places[0] - means[0]) @ joint @ (places[1] - means[1]))
    return both / np.sqrt(spread[0] * spread[1]) if min(spread) > 0 else 0.0


def _expected(tree: Any) -> float:
    """Mean total variation that the noise of a column alone would give, classes added up."""
    noise = float(tree.released.noise[0]) * np.sqrt(tree.n_classes)
    return float(np.mean(tree.fine.sizes) * noise * np.sqrt(2 / np.pi) / 2 / tree.n_rows)


def _labels(model: Fabricator, column: int) -> tuple[str, ...]:
    """Return the names of the cells of a column, or of the classes."""
    table, tree = model.released_tree()
    if column == tree.fine.width:
        return tuple(map(str, model.classes_))
    feature, edges = table.bounds.features[column], tree.fine.edges[column]
    cells, size = tree.fine.columns[column], tree.fine.sizes[column] - feature.missing
    if edges is None:
        found = [str(each) for each in (feature.categories or ())[:size]]
        found[-1] = "others" if cells.is_shared else found[-1]
    else:
        starts = np.array(edges[:-1])
        starts = feature.unscaled(np.ceil(starts) if cells.is_whole else starts)
        is_day = feature.part == "time"  # days since 1970
        found = [str(np.datetime64(int(s), "D")) if is_day else f"{s + 0:.6g}" for s in starts]
    return (*found, "missing") if feature.missing else tuple(found)


def _learned(model: Fabricator, made: Any, raw: Any) -> dict[str, dict[str, float]]:
    """Score learners on rows that they have not seen: raw ones where some were given."""
    bounds = model.bounds
    assert isinstance(bounds, TableBounds)  # noqa: S101 - the fabricator has a tree
    if not hasattr(model, "classes_") or bounds.target_of(made) is None:
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

    def share(rows: Array) -> float:
        return float(np.mean([row.tobytes() in known for row in rows])) if len(rows) else 0.0

    return {
        "fabricated rows that equal one of half of the raw rows": share(cells[0]),
        "raw rows of the other half that do": share(cells[1][half:]),
    }
