"""Private functions."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _functions_speed(numbers: dict[str, Any]) -> str:
    batch = rows_of(
        ["released at once", "CPU s", "wall s"],
        [[r["release"], r["cpu_s"], r["wall_s"]] for r in numbers["batch"]],
    )
    return (
        "Functions of 1000 rows (Gaussian) or of a formula; other work ran on the machine."
        f"\n\n{batch}"
    )


def _functions_rivals(numbers: list[dict[str, Any]]) -> str:
    text = (
        "One draw on a line, CPU seconds; ours with the function, the charge and exact noise, "
        "theirs a draw from the prior."
    )
    names = ("sfumato_cpu_s", "scikit_learn_cpu_s", "gpytorch_cpu_s")
    return f"{text}\n\n" + rows_of(
        ["kernel", "points", "Sfumato", "scikit-learn", "GPyTorch"],
        [[r["kernel"], r["points"], *(r[name] for name in names)] for r in numbers],
    )


def _functions_rate(numbers: dict[str, Any]) -> str:
    rows = [[r["d"], r["n"], r["plain"], r["private"]] for r in numbers["risks"]]
    slopes = numbers["slopes"]
    text = (
        "Mean squared error of a density at epsilon 1. Slopes from 2000 rows on: "
        f"{slopes['private_1']} (d = 1, plain {slopes['plain_1']}, theory -0.8) and "
        f"{slopes['private_2']} (d = 2, plain {slopes['plain_2']}, theory -0.667)."
    )
    return f"{text}\n\n{rows_of(['d', 'rows', 'plain', 'private'], rows)}"


def _functions_plane(numbers: list[dict[str, Any]]) -> str:
    names = ("plain", "strict", "paper")
    rows = [[r["loss"], *(f"{r[n]} ({r[f'{n}_noise']})" for n in names)] for r in numbers]
    text = "Accuracy (noise of a score) in the plane, 1000 rows, λ = 0.01, epsilon 1, delta 1e-5."
    return f"{text}\n\n{rows_of(['loss', 'no noise', 'strict', 'as printed'], rows)}"


def _functions_tables(numbers: list[dict[str, Any]]) -> str:
    rows = [
        [
            r["data"],
            r["epsilon"],
            f"{r['kernel']} ± {r['kernel_std']}",
            f"{r['diffprivlib']} ± {r['diffprivlib_std']}" if "diffprivlib" in r else "",
            r["fit_wall_s"],
        ]
        for r in numbers
        if "kernel" in r
    ]
    plain = ", ".join(
        f"{r['data']} {r['plain_logistic']} (majority {r['majority']})"
        for r in numbers
        if "plain_logistic" in r
    )
    text = (
        "Accuracy on test rows; ours at delta 1e-5, diffprivlib's logistic regression with pure "
        f"epsilon. Logistic regression without privacy: {plain}."
    )
    titles = ["data", "epsilon", "kernel classifier", "diffprivlib", "our fit (s)"]
    return f"{text}\n\n{rows_of(titles, rows)}"


def _functions_curves(numbers: list[dict[str, Any]]) -> str:
    rows = [[r["data"], r["curves"], r["mode"], r["rmse_half_ranges"]] for r in numbers]
    text = "Root mean squared error of mean curves in half ranges, epsilon 1, delta 1e-3, norm 1."
    return f"{text}\n\n{rows_of(['data', 'curves', 'noise', 'error'], rows)}"


def _densities(numbers: dict[str, Any]) -> str:
    text = (
        "Total variation, pure epsilon, one record replaced; the grid's rules were chosen on the "
        "distributions marked tuned. The histogram has 2 n^(1/3) bins; in the plane "
        "n^(1/4) or 2 n^(1/4) along each axis, whichever was better. Cover: share of "
        "cells whose 95 % band contains the smoothed density without noise, "
        f"{numbers['mean_band_cover']} on average; sampling and the bias of smoothing are "
        "not in the band."
    )
    names = ("kind", "law", "rows", "epsilon", "grid", "histogram", "ratio")
    rows = [[*(r[name] for name in names), r.get("band_cover", "")] for r in numbers["rows"]]
    return f"{text}\n\n" + rows_of([*names, "cover"], rows)


def _densities_tries(numbers: list[dict[str, Any]]) -> str:
    text = (
        "One rule differs from those that are used. Ratio: total variation divided by that of "
        "the histogram, averaged over distributions and budgets. Cover: share of cells "
        "whose 95 % band contains the smoothed density without noise, the smallest and "
        "the largest over all distributions and budgets."
    )
    rows = [
        [
            each["part"],
            each["tried"],
            each.get("mean_ratio_of_tuned_laws", ""),
            each["mean_ratio"],
            "; ".join(f"{law}, {n}, {e:g}: {r}" for law, n, e, r in each["above_the_histogram"]),
            " to ".join(map(str, each.get("band_cover_from_to", []))),
            each.get("mean_band_cover", ""),
        ]
        for each in numbers
    ]
    head = ["", "tried", "ratio, tuned laws", "ratio, all", "above the histogram", "cover", "mean"]
    return f"{text}\n\n" + rows_of(head, rows)


SECTIONS: Sections = {
    "densities": ("Smoothed densities beside histograms", _densities),
    "densities_tries": ("Smoothed densities: what was tried", _densities_tries),
    "functions_speed": ("Private functions: speed", _functions_speed),
    "functions_rivals": ("Private functions beside Gaussian process samplers", _functions_rivals),
    "functions_rate": ("Private densities: risk against the number of rows", _functions_rate),
    "functions_plane": ("Private kernel machines in the plane", _functions_plane),
    "functions_tables": ("Private kernel classifier beside diffprivlib", _functions_tables),
    "functions_curves": ("Private mean curves", _functions_curves),
}
