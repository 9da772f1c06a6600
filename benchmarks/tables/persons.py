"""Persons with several rows."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _utility(numbers: dict[str, Any]) -> str:
    head = (
        "Scores at epsilon 1 if a person has several rows; `eps / k` protects rows at a k-th of "
        "it, `group` rows at the epsilon whose group curve gives 1. Loss: against "
        "records.\n\n"
    )
    many = {"MNIST, accuracy": numbers} if "scores" in numbers else numbers
    titles = ["model", "rows per person", "unit", "epsilon", "score", "± sd", "loss"]
    rows = [
        [
            model,
            each["rows_per_person"],
            unit,
            f"{score['epsilon']:g}",
            f"{score['mean']:.3f}",
            f"{score['std']:.3f}",
            f"{each['losses'][unit]:.3f}",
        ]
        for model, each in many.items()
        for unit, score in each["scores"].items()
    ]
    return head + rows_of(titles, rows)


def _speed(numbers: dict[str, Any]) -> str:
    head = (
        f"{numbers['rows']:,} rows of {numbers['features']} numbers, at most "
        f"{numbers['rows_per_person']} per person.\n\n"
    )
    titles = ["PCA, unit", "CPU s", "times that of records"]
    rows = [["record", numbers["pca_record_cpu_s"], 1]] + [
        [f"person, {way}", numbers[f"pca_{way}_cpu_s"], numbers[f"pca_{way}_by_record"]]
        for way in ("average", "sum")
    ]
    return head + rows_of(titles, rows)


def _odd(numbers: dict[str, Any]) -> str:
    rows = [[case, f"{each['rows_kept']:,}"] for case, each in numbers.items()]
    return "A million rows, at most 8 per person.\n\n" + rows_of(["column of IDs", "kept"], rows)


SECTIONS: Sections = {
    "persons_mnist": ("Persons: MNIST, ten rows per writer", _utility),
    "persons_doctor": ("Persons: doctor contacts", _utility),
    "persons_speed": ("Persons: speed", _speed),
    "persons_odd": ("Persons: odd columns of IDs", _odd),
}
