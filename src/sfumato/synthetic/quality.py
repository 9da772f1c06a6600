"""How good fabricated rows are, in two parts that are never mixed.

Against what was released: free, may be repeated and handed out. Against the raw table: for the
owner of the rows alone, since these figures are not private; the page says so.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from sfumato.exceptions import InvalidInputError
from sfumato.report import Marginal, charts
from sfumato.report.pages import render, write_form
from sfumato.synthetic.cells import MAX_CATEGORIES, CellPlaces
from sfumato.synthetic.fabricator import Fabricator
from sfumato.synthetic.table_law import TableLaw
from sfumato.tables.bounds import label_places
from sfumato.tables.schema import Column, TableBounds

Array = NDArray[np.float64]

WORST = 5  # columns that are drawn
FREE = "Compared with what was released (free)"
SENSITIVE = "Compared with your table (SENSITIVE, owner only: not private, do not share)"


@dataclass(frozen=True)
class PairDistance:
    """Two columns: how far their table is from the reference, and their correlation in both.

    columns: Names.
    distance: Total variation.
    reference_correlation, correlation: Of ranks, as far as their order is known.
    """

    columns: tuple[str, str]
    distance: float
    reference_correlation: float
    correlation: float


@dataclass(frozen=True)
class Comparison:
    """Fabricated rows compared with one reference.

    title: What the reference is.
    names: Of the reference and of the fabricated rows.
    marginals: Shares of cells of each column, the label last; "real" is the reference.
    pairs: Pairs of columns.
    """

    title: str
    names: tuple[str, str]
    marginals: tuple[Marginal, ...]
    pairs: tuple[PairDistance, ...]

    @property
    def one_way(self) -> float:
        """Mean total variation of the columns."""
        return float(np.mean([each.distance for each in self.marginals]))

    @property
    def two_way(self) -> float | None:
        """Mean total variation of the pairs."""
        return float(np.mean([each.distance for each in self.pairs])) if self.pairs else None

    def figures(self) -> list[tuple[str, str]]:
        """Return the figures in words and numbers."""
        found = [("one-way distance", f"{self.one_way:.4f}")]
        if self.two_way is not None:
            off = [abs(p.correlation - p.reference_correlation) for p in self.pairs]
            found.append(("two-way distance", f"{self.two_way:.4f}"))
            found.append(("average error of rank correlations", f"{np.mean(off):.4f}"))
            found.append(("rank correlations off by, at most", f"{np.max(off):.4f}"))
        return found

    def worst_columns(self) -> list[Marginal]:
        """Return the columns whose shares are furthest from the reference."""
        return sorted(self.marginals, key=lambda each: -each.distance)[:WORST]

    def matrices(self) -> list[tuple[str, dict[tuple[str, str], float]]]:
        """Return magnitudes of correlations, of the reference and of fabricated rows."""
        one = {p.columns: abs(p.reference_correlation) for p in self.pairs}
        two = {p.columns: abs(p.correlation) for p in self.pairs}
        return [
            (f"Correlations, {n}", each) for n, each in zip(self.names, (one, two), strict=True)
        ]


@dataclass(frozen=True)
class Quality:
    """Figures about fabricated rows.

    n_rows: Fabricated rows.
    promise: What the fabricator guarantees.
    relations: Which relations were kept, in words, by released numbers.
    unmeasured: Pairs whose released relation does not stand out from its noise; it was lost.
    free: Compared with what was released.
    sensitive: Compared with the raw table, where one was given.
    """

    n_rows: int
    promise: str
    relations: str
    unmeasured: tuple[tuple[str, str], ...]
    free: Comparison
    sensitive: Comparison | None

    @property
    def parts(self) -> list[Comparison]:
        """The comparisons that were made."""
        return [self.free] + ([] if self.sensitive is None else [self.sensitive])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        found = asdict(self)
        for name, part in (("free", self.free), ("sensitive", self.sensitive)):
            if part is not None:
                found[name] |= {"one_way": part.one_way, "two_way": part.two_way}
        return found

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a page (.html) or JSON (.json)."""
        title, text = "Quality of fabricated rows", json.dumps(self.to_dict(), indent=2) + "\n"
        page = partial(render, "quality.html", title=title, quality=self, draw=charts)
        write_form(path, {".html": page, ".json": lambda: text})


# Measuring ----------------------------------------------------------------------------------------


def kept_relations(law: TableLaw) -> tuple[str, list[tuple[str, str]]]:
    """Judge by released numbers which relations were kept; return the pairs that were not."""
    names = [law.bounds.features[i].name for i in law.features]
    pairs = list(combinations(range(len(names)), 2))
    if not pairs:
        return "Relations: one column has none.", []
    told = {tuple(sorted(pair)) for pair in law.released["tree"].tolist()}
    strength = law.correlations
    kept = [pair for pair in pairs if pair in told or abs(strength[pair]) > 1e-3]
    lost = [(names[i], names[j]) for i, j in pairs if (i, j) not in set(kept)]
    best = sorted(kept, key=lambda pair: -abs(strength[pair]))[:3]
    listed = ", ".join(f"{names[i]} and {names[j]} {strength[i, j]:.2f}" for i, j in best)
    first = f"Relations: {len(kept)} of {len(pairs)} pairs of columns were kept"
    first += f" (strongest: {listed})" if best else ""
    return f"{first}; {len(lost)} do not stand out from the noise and were lost.", lost


def bounds_of_made(bounds: TableBounds) -> TableBounds:
    """Return the bounds of fabricated rows, in which parts of dates are columns."""
    columns: list[Column] = []
    for column in bounds.used:
        for each in column.features:
            if each.part in ("", "time"):
                columns.append(replace(column, parts=("time",) if each.part else (), format=""))
            else:
                ends = (None, None) if each.categories else (each.lower, each.upper)
                known = {"categories": each.categories, "missing": column.missing}
                columns.append(Column(each.name, "int64", *ends, **known))
    return replace(bounds, columns=tuple(columns), text=None, person=None)


def measured_quality(model: Fabricator, made: Any, raw: Any = None) -> Quality:
    """Compare fabricated rows with what was released, and with raw rows where given."""
    law = model.released_law()
    bounds, n_columns = law.bounds, law.cells.width
    names = [feature.name for feature in bounds.features]
    labels, sizes = [_cell_names(law, i) for i in range(n_columns)], list(law.cells.sizes)
    if hasattr(model, "classes_") and bounds.target is not None:
        names, sizes = [*names, bounds.target.name], [*sizes, law.n_classes]
        labels.append(tuple(map(str, model.classes_)))

    def cells_of(rows: Any, bounds: TableBounds = bounds) -> NDArray[np.intp]:
        places = CellPlaces(law.cells.columns)(bounds.cells(rows))
        if not len(places):
            raise InvalidInputError("The table has no rows whose quality could be measured.")
        target, codes = bounds.target_of(rows), np.zeros(len(places), dtype=np.intp)
        if hasattr(model, "classes_") and target is not None:
            codes = np.maximum(label_places(model.classes_, target), 0)
        found = np.column_stack([np.asarray(law.cells(places)).astype(np.intp), codes])
        return found[:, : len(names)]

    def shares(rows: NDArray[np.intp], *columns: int) -> Array:
        shape = tuple(sizes[c] for c in columns)
        flat = np.ravel_multi_index(tuple(rows[:, columns].T), shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape) / len(rows)

    def scored(rows: NDArray[np.intp]) -> Array:
        """Ranks of the cells, in the order of the copula."""
        found = []
        for i in range(len(names)):
            order = np.arange(sizes[i])
            if i < n_columns:
                order[law.orders[i]] = np.arange(len(law.orders[i]))
            found.append(rankdata(order[rows[:, i]]))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.nan_to_num(np.corrcoef(np.array(found))))

    rows = cells_of(made, bounds_of_made(bounds))
    found_correlations = scored(rows)
    relations, lost = kept_relations(law)
    feature = {i: k for k, i in enumerate(law.features)}

    def compared(reference: NDArray[np.intp] | None) -> Comparison:
        marginals, pairs = [], []
        for i, name in enumerate(names):
            real = shares(reference, i) if reference is not None else None
            if real is None:
                real = law.margins[i] if i < n_columns else law.shares
            here = shares(rows, i)
            marginals.append(Marginal(name, labels[i], tuple(real.tolist()), tuple(here.tolist())))
        real_correlations = None if reference is None else scored(reference)
        masses = {}
        for pair, table in zip(law.released["tree"].tolist(), law.pair_masses, strict=False):
            masses[tuple(pair)] = table
        for i, j in combinations(range(len(names)), 2):
            if reference is not None and real_correlations is not None:
                distance = float(np.abs(shares(reference, i, j) - shares(rows, i, j)).sum() / 2)
                known = float(real_correlations[i, j])
            elif i in feature and j in feature:
                a, b = feature[i], feature[j]
                if (names[i], names[j]) in lost:
                    continue
                known = float(6 / np.pi * np.arcsin(law.correlations[a, b] / 2))  # of ranks
                distance = 0.0
                if (a, b) in masses:
                    at = law.coarse[a][rows[:, i]], law.coarse[b][rows[:, j]]
                    table = np.zeros_like(masses[a, b])
                    np.add.at(table, at, 1 / len(rows))
                    distance = float(np.abs(table - masses[a, b]).sum() / 2)
            else:
                continue
            both = (names[i], names[j])
            pairs.append(PairDistance(both, distance, known, float(found_correlations[i, j])))
        is_raw = reference is not None
        return Comparison(
            SENSITIVE if is_raw else FREE,
            ("your table" if is_raw else "released", "fabricated"),
            tuple(marginals),
            tuple(pairs),
        )

    return Quality(
        len(rows),
        str(model.guarantee_),
        relations,
        tuple(lost),
        compared(None),
        None if raw is None else compared(cells_of(raw)),
    )


def _cell_names(law: TableLaw, column: int) -> tuple[str, ...]:
    """Return the names of the cells of a column."""
    feature, edges = law.bounds.features[column], law.cells.edges[column]
    cells, size = law.cells.columns[column], law.cells.sizes[column] - feature.missing
    if edges is None:
        found = [str(each) for each in (feature.categories or ())[:size]]
        found[-1] = "others" if cells.n_categories > MAX_CATEGORIES else found[-1]
    else:
        starts = np.array(edges[:-1])
        starts = feature.unscaled(np.ceil(starts) if cells.is_whole else starts)
        is_day = feature.part == "time"  # days since 1970
        found = [str(np.datetime64(int(s), "D")) if is_day else f"{s + 0:.6g}" for s in starts]
    return (*found, "missing") if feature.missing else tuple(found)
