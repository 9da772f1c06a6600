"""Affine hulls without privacy."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _sizes(numbers: list[dict[str, Any]]) -> str:
    return rows_of(
        ["N x p", "CPU s", "paper s", "ratio"],
        [[f"{r['N']} x {r['p']}", r["cpu_s"], r["paper_s"], r["ratio"]] for r in numbers],
    )


def _oracle(numbers: dict[str, Any]) -> str:
    faster = numbers["times_faster"]
    return (
        f"Fit {faster['fit']} times, distance {faster['distance']} times faster than the formulas "
        f"as printed; largest relative difference of a distance "
        f"{numbers['largest_relative_difference']:.1e}."
    )


def _mnist(numbers: dict[str, Any]) -> str:
    return rows_of(
        ["fit s", "exact predict s", "pruned predict s", "equal labels", "accuracy", "peak GiB"],
        [
            [
                numbers["fit"]["wall_s"],
                numbers["predict_exact"]["wall_s"],
                numbers["predict_pruned"]["wall_s"],
                numbers["pruned_equal_labels"],
                numbers["accuracy"],
                numbers["peak_gib"],
            ]
        ],
    )


def _growth(numbers: list[dict[str, Any]]) -> str:
    return rows_of(
        ["rows", "branches", "CPU s", "CPU ms a row"],
        [[r["N"], r["branches"], r["cpu_s"], r["cpu_ms_per_row"]] for r in numbers],
    )


def _rivals(numbers: list[dict[str, Any]]) -> str:
    return rows_of(
        ["model", "accuracy", "fit s", "predict s"],
        [
            [f"`{r['model']}`", r["accuracy"], r["fit"]["wall_s"], r["predict"]["wall_s"]]
            for r in numbers
        ],
    )


def _gpu(numbers: dict[str, Any]) -> str:
    return (
        f"Fit {numbers['fit']['wall_s']} s, exact prediction {numbers['predict_exact']['wall_s']} "
        f"s, both {numbers['fit_and_predict_wall_s']} s, accuracy {numbers['accuracy']}, "
        f"{numbers['peak_gib']} GiB."
    )


SECTIONS: Sections = {
    "hulls_mnist": ("Hulls: all of MNIST", _mnist),
    "hulls_rivals_mnist": ("Hulls beside others, MNIST", _rivals),
    "hulls_rivals_digits": ("Hulls beside others, digits", _rivals),
    "hulls_sizes": ("Hulls: the paper's Table 11", _sizes),
    "hulls_oracle": ("Hulls: against the formulas as printed", _oracle),
    "hulls_growth": ("Hulls: growth with the number of rows", _growth),
    "hulls_gpu": ("Hulls: all of MNIST on a GPU", _gpu),
}
