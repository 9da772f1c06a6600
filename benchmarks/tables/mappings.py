"""Membership mappings and transfer."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _mappings_oracle(numbers: list[dict[str, Any]]) -> str:
    return rows_of(
        ["rows", "n", "M of each layer", "as printed", "difference / range", "CPU s", "printed s"],
        [
            [
                r["rows"],
                r["n_components"],
                r["inducing_points"],
                r["same_as_printed"],
                f"{r['largest_difference_by_range']:.1e}",
                r["fast_cpu_s"],
                r["printed_cpu_s"],
            ]
            for r in numbers
        ],
    )


def _mappings_mnist(numbers: dict[str, Any]) -> str:
    return rows_of(
        ["branches", "fit s", "10,000 points s", "accuracy", "peak GiB"],
        [
            [
                numbers["branches"],
                numbers["fit"]["wall_s"],
                numbers["predict"]["wall_s"],
                numbers["accuracy"],
                numbers["peak_gib"],
            ]
        ],
    )


def _mappings_labels(numbers: list[dict[str, Any]]) -> str:
    ways = {True: "with the source", False: "target alone"}
    return "Record level, epsilon 1, delta 1e-5.\n\n" + rows_of(
        ["pair", "labels per class", "way", "accuracy", "standard deviation", "seeds", "winners"],
        [
            [
                r["pair"],
                r["labels_a_class"],
                ways[r["use_source"]],
                r["accuracy"],
                r["accuracy_std"],
                len(r["runs"]),
                r["runs"][0]["winners"],
            ]
            for r in sorted(numbers, key=lambda r: (r["pair"], r["labels_a_class"]))
        ],
    )


def _mappings_paper(numbers: list[dict[str, Any]]) -> str:
    return "10 labels per class, one release of the source.\n\n" + rows_of(
        ["pair", "setting", "seed", "accuracy", "winners of 1000", "source s", "target CPU s"],
        [
            [
                r["pair"],
                r["setting"],
                r["run"],
                r["accuracy"],
                r["winners"],
                r["source_wall_s"],
                r["fit_cpu_s"],
            ]
            for r in sorted(numbers, key=lambda r: (r["pair"], r["setting"], r["run"]))
        ],
    )


def _mappings_usps_mnist(numbers: list[dict[str, Any]]) -> str:
    printed = {100: 0.923, 300: 0.973, 500: 0.98}
    rows = []
    for labels, frame in sorted({(row["labels"], row["frame"]) for row in numbers}):
        runs = [r for r in numbers if (r["labels"], r["frame"]) == (labels, frame)]
        accuracies = [run["accuracy"] for run in runs]
        mean, spread = statistics.mean(accuracies), statistics.pstdev(accuracies)
        figures = [round(mean, 4), round(spread, 4), len(runs)]
        rows.append([labels, frame, *figures, printed.get(labels, "")])
    titles = ["labels", "source's images", "accuracy", "standard deviation", "seeds", "printed"]
    return "Record level, epsilon 1, 60,000 target rows.\n\n" + rows_of(titles, rows)


def _mappings_several_sources(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Rows of 8 x 8 pixels, 3 labels per class, record epsilon 1 for each source. Two sources "
        "are better than either; this target's own labels alone are better still."
    )
    rows = [[r["sources"], r["accuracy"], r["accuracy_std"]] for r in numbers]
    return f"{head}\n\n" + rows_of(["sources", "accuracy", "deviation"], rows)


def _mappings_office(numbers: list[dict[str, Any]]) -> str:
    titles = ["pair", "entry epsilon 0.1", "no noise", "target alone", "linear SVM"]
    return "EfficientNet-Lite0 features, 3 labels per class, 5 splits.\n\n" + rows_of(
        titles, [[r[title] for title in titles] for r in numbers]
    )


SECTIONS: Sections = {
    "mappings_oracle": ("Autoencoders: against the algorithms as printed", _mappings_oracle),
    "mappings_mnist": ("Autoencoders: all of MNIST", _mappings_mnist),
    "mappings_labels": ("Transfer: few labels, with and without the source", _mappings_labels),
    "mappings_paper": ("Transfer: the paper's Tables 1 and 2", _mappings_paper),
    "mappings_usps_mnist": ("Transfer: USPS to MNIST", _mappings_usps_mnist),
    "mappings_several_sources": (
        "Transfer: MNIST and USPS to the digits of scikit-learn",
        _mappings_several_sources,
    ),
    "mappings_office": ("Transfer: Office+Caltech10", _mappings_office),
}
