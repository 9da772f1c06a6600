"""Additive models of tables."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _models(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Add or remove one, delta 1e-5, defaults only, everything charged, five runs. Asked: the "
        "target set before the models were built. DP-EBM was measured in a separate run "
        "on the same machine; diffprivlib guarantees pure epsilon, and its linear "
        "regression breaks down on one-hot columns.\n\n"
    )
    titles = ["table", "measure", "model", "epsilon", "mean", "sd", "asked", "CPU s"]
    kept = ("table", "metric", "model", "epsilon", "mean", "sd", "asked", "cpu_s")
    rows = [["" if r.get(k) is None else r[k] for k in kept] for r in numbers]
    return head + rows_of(titles, rows)


def _linear(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Add or remove one, delta 1e-5, defaults only, everything charged, five runs. Settings of "
        "the descent were chosen on held-out training rows of these two tables.\n\n"
    )
    kept = ("table", "metric", "model", "epsilon", "mean", "sd", "cpu_s")
    rows = [["" if r.get(k) is None else r[k] for k in kept] for r in numbers]
    return head + rows_of(["table", "measure", "model", "epsilon", "mean", "sd", "CPU s"], rows)


def _missing(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Area under the ROC curve on all later records: a model of all records, in which a "
        "missing cell has a value of its own, compared with one of complete records "
        "only.\n\n"
    )
    kept = ("missing", "epsilon", "all_records", "complete_records", "runs")
    return head + rows_of([each.replace("_", " ") for each in kept], _cells(numbers, kept))


def _bands(numbers: list[dict[str, Any]]) -> str:
    head = "Share of columns whose whole curve without noise is inside its band.\n\n"
    kept = ("epsilon", "columns", "covered", "asked")
    return head + rows_of(list(kept), _cells(numbers, kept))


def _cells(numbers: list[dict[str, Any]], kept: tuple[str, ...]) -> list[list[Any]]:
    return [[row[name] for name in kept] for row in numbers]


def _hospital(numbers: list[dict[str, Any]]) -> str:
    head = (
        "The invented hospital that ships: 3,500 rows to learn from, 1,500 held out, delta 1e-5, "
        "one record replaced, defaults, five runs with fresh noise.\n\n"
    )
    rows = [
        [
            each["model"],
            "none" if each["epsilon"] is None else f"{each['epsilon']:g}",
            f"{each['accuracy']:.3f} ± {each['std']:.3f}",
        ]
        for each in numbers
    ]
    return head + rows_of(["model", "epsilon", "accuracy"], rows)


SECTIONS: Sections = {
    "hospital": ("The hospital of the README", _hospital),
    "additive_models": ("Additive models of tables", _models),
    "linear_regressor": ("Linear regression on tables", _linear),
    "table_missing": ("Tables with missing cells", _missing),
    "explanation_bands": ("Bands of explanations", _bands),
}
