"""Charts of the page: a results file, and the pictures that are drawn of its numbers.

Each entry of CHARTS makes SVG texts of the numbers of one file; `rebuild` keeps them in
benchmarks/charts/ under the name of the file. Ratios come first: above 1 is in our favour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.drawing import Line, bars, chart

Row = dict[str, Any]
LOST = -0.5  # a share or an R² below this is not drawn, and said so


def by(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows by some of their fields, in their order."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def is_without(row: Row) -> bool:
    """Whether a row was measured without privacy."""
    return row.get("epsilon") in (None, "inf")


def against_epsilon(
    title: str,
    rows: Sequence[Row],
    name: Callable[[Row], str],
    *,
    value: str = "accuracy",
    measure: str = "accuracy on test rows",
) -> str:
    """Draw a measure against epsilon, a line per name; rows without an epsilon are level lines."""
    lines: dict[str, list[tuple[float, float]]] = {}
    rows = [row for row in rows if row.get(value) is not None]
    lost = {name(row) for row in rows if row[value] < LOST}
    rows = [row for row in rows if name(row) not in lost]
    for row in rows:
        if not is_without(row):
            lines.setdefault(name(row), []).append((row["epsilon"], row[value]))
    epsilons = [e for points in lines.values() for e, _ in points]
    drawn = [Line(key, sorted(points)) for key, points in lines.items()]
    drawn += [Line(f"{key}: below the chart", []) for key in sorted(lost)]
    for row in rows:
        if is_without(row):
            level = [(e, row[value]) for e in (min(epsilons), max(epsilons))]
            drawn.append(Line(_plain(name(row)), level, dashed=True))
    story = f"{measure} against epsilon, lines: {', '.join(line.name for line in drawn)}."
    return chart(title, story, drawn, x="ε", y=measure, x_log=True, dots=True)


def _plain(name: str) -> str:
    return name if "privacy" in name or "always" in name else f"{name}, no noise"


def against_size(title: str, lines: Sequence[Line], *, x: str, y: str) -> str:
    names = ", ".join(line.name for line in lines)
    story = f"{y} against {x}, both logarithmic: {names}."
    return chart(title, story, lines, x=x, y=y, x_log=True, y_log=True, dots=True)


def ratios(title: str, rows: Sequence[tuple[str, Sequence[float]]], names: Sequence[str]) -> str:
    """Draw ratios from 1; a bar to the right is in our favour, one to the left is not."""
    values = [value for _, group in rows for value in group]
    limits = (min(0.5, *values) / 1.2, max(2.0, *values) * 1.2)
    won = sum(group[0] > 1 for _, group in rows)
    story = f"Ratios, above 1 in our favour: {names[0]} in {won} of {len(rows)} rows."
    unit = "times; left of the line we lose (logarithmic)"
    return bars(title, story, rows, names, unit=unit, log=True, base=1.0, limits=limits)


# Beside others ------------------------------------------------------------------------------------


def _short(name: str) -> str:
    for long, word in (("Private", ""), ("Classifier", ""), ("Mechanism", ""), ("Regression", "")):
        name = name.replace(long, word)
    return name.partition(" (")[0]


def _peers(numbers: Sequence[Row]) -> list[str]:
    found = []
    for tasks, title in (
        (("classification",), "Classification, ε = 1"),
        (("principal components", "mean", "density"), "Components, means, densities, ε = 1"),
        (("synthetic table",), "Synthetic tables, ε = 1"),
    ):
        rows = [
            (f"{row['data']}: {_measure(row)}{_short(row['ours']['name'])} / {_peer(row)}", row)
            for row in numbers
            if row["task"] in tasks and row.get("epsilon", 1.0) == 1.0 and row["times_better"]
        ]
        pairs = [
            (name, [row["times_better"], *filter(None, [row["times_faster"]])])
            for name, row in rows
        ]
        if pairs:
            found.append(ratios(title, pairs, ["better by", "faster by"]))
    return found


def _measure(row: Row) -> str:
    return f"{row['measure']}, " if row["task"] == "synthetic table" else ""


def _peer(row: Row) -> str:
    return _short(row["peer"]["name"]).replace("diffprivlib", "dpl")


def _densities(numbers: Row) -> list[str]:
    rows = [row for row in numbers["rows"] if row["epsilon"] == 1.0 and row["rows"] == 1000]
    pairs = [(f"{row['law']}", [1 / row["ratio"]]) for row in rows]
    title = "Histogram's error over ours, 1,000 rows, ε = 1"
    return [ratios(title, pairs, ["better by"])]


def _hull_sizes(numbers: Sequence[Row]) -> list[str]:
    pairs = [(f"{row['N']:,} × {row['p']:,}", [row["ratio"]]) for row in numbers]
    return [ratios("Seconds of the paper over ours", pairs, ["faster by"])]


def _rivals(numbers: Sequence[Row]) -> list[str]:
    rows = [(row["model"], [row["accuracy"]]) for row in numbers]
    low = min(row["accuracy"] for row in numbers)
    return [
        bars(
            "Accuracy, nothing private",
            "Accuracy of each model as a bar.",
            rows,
            ["accuracy"],
            unit="accuracy",
            base=max(0.0, round(low - 0.02, 2)),
        )
    ]


def _fabricated(numbers: Sequence[Row]) -> list[str]:
    rows = [row for row in numbers if row["epsilon"] == 1.0 and "margins" in row]
    pairs = [(f"{row['table']}, {_method(row)}", row["margins"][:2]) for row in rows]
    return [_margins("Error of margins of fabricated rows, ε = 1", pairs)]


def _fabricated_peers(numbers: Sequence[Row]) -> list[str]:
    rows = [row for row in numbers if "margins" in row and len(row["margins"]) >= 2]
    pairs = [(f"{row['table']}, {row['method']}", row["margins"][:2]) for row in rows]
    return [_margins("Error of margins, peers, ε = 1", pairs)]


def _method(row: Row) -> str:
    return str(row.get("method", row.get("engine")))


def _margins(title: str, pairs: Sequence[tuple[str, Sequence[float]]]) -> str:
    story = "Mean total variation of one and of two columns, as bars; less is better."
    names = ["one column", "two columns"]
    return bars(title, story, pairs, names, unit="total variation: less is better")


# Accuracy against epsilon -------------------------------------------------------------------------


def _frontier(numbers: Sequence[Row]) -> list[str]:
    return [
        against_epsilon(
            f"{data}, everything charged",
            [row for row in rows if row["relation"] == "add_or_remove_one"],
            lambda row: row["features"],
        )
        for (data,), rows in by(numbers, "data").items()
    ]


def _moments(numbers: Sequence[Row]) -> list[str]:
    before = [
        row | {"accuracy": row.get("accuracy_about_the_origin"), "before": True} for row in numbers
    ]
    return [
        against_epsilon(
            "Gaussian classifier, MNIST",
            [*numbers, *before],
            lambda row: "before the record engine" if row.get("before") else "as it stands",
        )
    ]


def _additive(numbers: Sequence[Row]) -> list[str]:
    return [
        against_epsilon(table, rows, lambda row: row["model"], value="mean", measure=metric)
        for (table, metric), rows in by(numbers, "table", "metric").items()
        if not all(is_without(row) for row in rows)
    ]


def _hospital(numbers: Sequence[Row]) -> list[str]:
    return [against_epsilon("The hospital, 3,500 rows", numbers, lambda row: row["model"])]


def _learners(numbers: Sequence[Row]) -> list[str]:
    return [
        against_epsilon(
            "Trained on fabricated rows, MNIST",
            numbers,
            lambda row: row["learner"].replace("_", " "),
        )
    ]


def _pixels(numbers: Sequence[Row]) -> list[str]:
    return [against_epsilon("Five parties, raw pixels, MNIST", numbers, lambda row: row["trust"])]


def _rate(numbers: Row) -> list[str]:
    return [
        against_size(
            f"Risk of a density, {d} feature(s)",
            [Line(key, [(r["n"], r[key]) for r in rows]) for key in ("private", "plain")],
            x="rows",
            y="mean squared error",
        )
        for (d,), rows in by(numbers["risks"], "d").items()
    ]


CHARTS: dict[str, Callable[[Any], list[str]]] = {
    "peers": _peers,
    "densities": _densities,
    "hulls_sizes": _hull_sizes,
    "hulls_rivals_mnist": _rivals,
    "fabricated_tables": _fabricated,
    "fabricated_tables_peers": _fabricated_peers,
    "margins_frontier": _frontier,
    "margins_frontier_cifar": _frontier,
    "moments_mnist": _moments,
    "additive_models": _additive,
    "hospital": _hospital,
    "fabrication_learners": _learners,
    "parties_pixels": _pixels,
    "functions_rate": _rate,
}


def charts(name: str, numbers: Any) -> list[str]:
    """Draw the charts of one results file, none where it has none."""
    return CHARTS[name](numbers) if name in CHARTS else []
