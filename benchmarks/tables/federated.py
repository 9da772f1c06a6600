"""Federated learning."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _federated_hulls(numbers: list[dict[str, Any]]) -> str:
    return "Every party fits its own private hulls; the coordinator merges them.\n\n" + rows_of(
        ["scenario", "parties", "accuracy", "MB sent", "fit s, all parties"],
        [
            [r["scenario"], r["parties"], r["accuracy"], r["megabytes_sent"], r["fit"]["wall_s"]]
            for r in numbers
        ],
    )


def _federated_linear(numbers: list[dict[str, Any]]) -> str:
    ways = ["moments", "projectors", "bases", "one party", "non-private"]
    head = (
        "Five parties, 20 components, delta 1e-4: accuracy by the way in which subspaces are put "
        "together (bases is the printed one), of one party alone, and of that without noise."
    )
    rows = [
        [r["task"], r["epsilon"], *(f"{r[way]} ± {r['std'][way]}" for way in ways)] for r in numbers
    ]
    return f"{head}\n\n" + rows_of(["task", "epsilon", *ways], rows)


def _federated_engine(numbers: list[dict[str, Any]]) -> str:
    return rows_of(
        ["parties", "in this process s", "Flower's simulation s", "of that, rounds s"],
        [
            [
                r["parties"],
                r["here"]["wall_s"],
                r["flower"]["wall_s"],
                ", ".join(f"{phase} {seconds}" for phase, seconds in r["rounds_s"].items()),
            ]
            for r in numbers
        ],
    )


SECTIONS: Sections = {
    "federated_hulls": ("Federated hulls, MNIST, entry epsilon 16", _federated_hulls),
    "federated_record": ("Federated hulls, MNIST, record epsilon 3", _federated_hulls),
    "federated_linear": ("Federated linear classifiers", _federated_linear),
    "federated_engine": ("Federated: what Flower's engine adds", _federated_engine),
}
