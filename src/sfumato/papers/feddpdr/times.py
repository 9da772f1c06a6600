"""Table 3 of the paper on federated support vector machines: seconds to train."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.papers.data import images, unit_rows
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting
from sfumato.papers.feddpdr.methods import METHODS, STRICT, UNIT, Federation

EPSILON, COMPONENTS, N_ROWS = 0.1, 20, 10_000
PRINTED_SECONDS: Mapping[str, tuple[float, ...]] = {  # in the order of METHODS
    "MNIST": (3.68, 7873.23, 111.70, 113.20),
    "Fashion-MNIST": (5.02, 7988.60, 112.70, 123.50),
    "CIFAR-10": (63.45, 36960.70, 147.96, 150.30),
}
FILES = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist", "CIFAR-10": "cifar10"}


def seconds(X: NDArray[Any], y: NDArray[Any], n_rows: int, method: str, way: str) -> float:
    """Train by one method and return the CPU seconds of one party; parties work in parallel."""
    wanted = 5 if method == "FedDPDR-DPML" else 1
    n_parties = min(wanted, len(y) // n_rows)
    parts = np.split(np.arange(n_parties * n_rows), n_parties)
    parties = [(unit_rows(X[part]), y[part]) for part in parts]
    begun = time.process_time()
    Federation(parties, way, EPSILON, COMPONENTS).learn(method)
    return (time.process_time() - begun) / n_parties


def rows_of(setting: Setting, name: str) -> list[Comparison]:
    """Return the four figures of one data set."""
    split = images(setting, FILES[name])
    y, n_rows = split.y % 2, 240 if setting.quick else N_ROWS
    rows = []
    for method, printed in zip(METHODS, PRINTED_SECONDS[name], strict=True):
        setting.tell(f"{name}, {method}")
        ours = {way: seconds(split.X, y, n_rows, method, way) for way in (UNIT, STRICT)}
        strict = None if method == "Non-Priv" else round(ours[STRICT], 3)
        rows.append(
            Comparison(
                f"{name}, {method}",
                printed,
                round(ours[UNIT], 3),
                strict,
                within=0.0,
                better="lower",
                unit="s",
            )
        )
    return rows


def table_3(setting: Setting) -> Outcome:
    """Measure the four methods once each."""
    names = ("MNIST",) if setting.quick else tuple(PRINTED_SECONDS)
    rows = [row for name in names for row in rows_of(setting, name)]
    return Outcome(
        tuple(rows), claims=_claims(rows), draw=draw, series=_series(rows), remarks=NOTES
    )


def _claims(rows: list[Comparison]) -> dict[str, bool]:
    ours = {row.what: row.paper or 0.0 for row in rows}
    names = {row.what.split(",")[0] for row in rows}
    saves = all(ours[f"{name}, DPDR-DPML"] < ours[f"{name}, DPML"] for name in names)
    return {"reducing the dimension saves time": saves}


def _series(rows: list[Comparison]) -> dict[str, Any]:
    return {row.what: [row.printed, row.paper, row.strict] for row in rows}


def draw(figure: Any, series: Mapping[str, Any]) -> None:
    """Seconds on a logarithmic axis."""
    figure.set_size_inches(8, 1.5 + 0.3 * len(series))
    axes = figure.add_subplot()
    for i, (name, colour) in enumerate(
        (("printed", "0.35"), ("paper", "tab:orange"), ("strict", "tab:blue"))
    ):
        shown = [(row[i], place) for place, row in enumerate(series.values()) if row[i] is not None]
        axes.plot(*zip(*shown, strict=True), "o", color=colour, label=name)
    axes.set_yticks(range(len(series)), list(series), fontsize=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="s")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8)


NOTES = (
    "Machines differ: a figure counts as reproduced if it is no larger than the printed one.",
    "CPU seconds of one party; of several, the seconds of all by their number, since they would "
    "work at the same time.",
    "Labels are those of even and odd classes, rows of length 1. CIFAR-10 has its raw pixels and "
    "two parties, for lack of rows.",
    "DPML takes seconds here and two hours in print: the minimiser is found by Newton's method.",
)
ENTRIES = (
    Entry(
        "feddpdr",
        "table-3",
        "Seconds to train four linear classifiers",
        table_3,
        data="MNIST, Fashion-MNIST and CIFAR-10; quick: the 8 x 8 digits",
        minutes="about 5, one core",
    ),
)
