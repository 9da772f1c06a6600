"""Federated learning."""

from __future__ import annotations

from collections.abc import Callable
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


def _parties_accuracy(numbers: list[dict[str, Any]]) -> str:
    head = (
        "The same estimator over one table, and over the sums of parties: noisy ones (nothing is "
        "assumed about the coordinator) and secure ones (it sees the total; one party "
        "may collude). Mean, smallest and largest of the runs; CPU seconds are those of "
        "all parties together."
    )
    rows = [
        [
            r["model"],
            r["trust"],
            r["parties"],
            r["accuracy"],
            f"{r['least']} to {r['most']}",
            r["megabytes_per_party"],
            r["fit"]["cpu_s"],
        ]
        for r in numbers
    ]
    names = ["model", "trust", "parties", "accuracy", "runs", "MB per party", "fit CPU s"]
    return f"{head}\n\n" + rows_of(names, rows)


def _parties_by(name: str) -> Callable[[list[dict[str, Any]]], str]:
    def table(numbers: list[dict[str, Any]]) -> str:
        return rows_of(
            [name, "trust", "parties", "accuracy", "runs"],
            [
                [r[name], r["trust"], r["parties"], r["accuracy"], f"{r['least']} to {r['most']}"]
                for r in numbers
            ],
        )

    return table


def _parties_linear(numbers: list[dict[str, Any]]) -> str:
    head = (
        "MNIST, record epsilon 3, delta 1e-5: one sum per gradient. Totals are drawn from their "
        "distribution, the exact sum with the noise of all parties, which tests compare "
        "with the protocol."
    )
    return f"{head}\n\n" + _parties_by("n_steps")(numbers)


def _parties_tries(numbers: list[dict[str, Any]]) -> str:
    head = (
        "MNIST, record epsilon 3, totals drawn from their distribution. The target was .945; the "
        "first row has the settings that were kept, and no other was better."
    )
    rows = [
        [
            ", ".join(f"{k}={v}" for k, v in r["settings"].items()) or "as they are",
            r["accuracy"],
            f"{r['least']} to {r['most']}",
        ]
        for r in numbers
    ]
    return f"{head}\n\n" + rows_of(["settings", "accuracy", "runs"], rows)


def _parties_masking(numbers: list[dict[str, Any]]) -> str:
    head = (
        "CPU seconds of one party for a sum of 998,991 numbers over 2,000 rows: the sum itself, "
        "its share of the noise, shares of its secrets for the others, and masks."
    )
    names = ["parties", "neighbours", "sum_s", "noise_s", "shares_s", "masks_s", "masking_by_sum"]
    titles = ["parties", "neighbours", "sum s", "noise s", "shares s", "masks s", "masking / sum"]
    return f"{head}\n\n" + rows_of(titles, [[r[name] for name in names] for r in numbers])


SECTIONS: Sections = {
    "parties_accuracy": ("Sums over parties, MNIST, record epsilon 3", _parties_accuracy),
    "parties_pixels": ("Sums over five parties, raw pixels", _parties_by("epsilon")),
    "parties_scenarios": ("Sums over parties of all kinds", _parties_by("scenario")),
    "parties_linear": ("Linear classifiers over parties, HOG", _parties_linear),
    "parties_gradients": ("Linear classifiers over parties by fewer gradients", _parties_linear),
    "parties_tries": ("Hulls over ten parties, noisy sums: other settings", _parties_tries),
    "parties_masking": ("What masks cost a party", _parties_masking),
    "federated_hulls": ("Federated hulls, MNIST, entry epsilon 16", _federated_hulls),
    "federated_record": ("Federated hulls, MNIST, record epsilon 3", _federated_hulls),
}
