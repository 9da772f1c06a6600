"""Rebuild the page and its charts from the last results: ``python -m benchmarks.pages``."""

from __future__ import annotations

import json

from benchmarks.drawing import title_of
from benchmarks.plots import charts
from benchmarks.recording import RESULTS

HEAD = """# Benchmarks

Charts of the main results, and the files that hold every number with machine, versions and seeds.
In charts of ratios, a bar to the right of the line is in our favour, and a bar to the left is a
loss. `make bench` runs all benchmarks and rebuilds this page; real data are found through
`SFUMATO_DATA`. Seconds are those of one run on one machine: compare rows, not machines. A file
without a script in `benchmarks/` keeps the result of a campaign that a page quotes. Each file has
the date of its run; † marks runs of 0.2.0, whose code has changed since.
"""
NEW = "2026-11-17"  # from this day on the code of 0.3 was measured
SOURCE = "https://github.com/sfumato-dp/sfumato/blob/main/benchmarks/results"
# Title of a chapter: what it measures, and the results that it shows.
CHAPTERS: dict[str, tuple[str, dict[str, str]]] = {
    "Other packages": (
        "The same rows, bounds and epsilon for everyone.",
        {
            "peers": "all comparisons",
            "statistics": "counts, means, quantiles",
            "statistics_ranges": "counts of ranges",
            "statistics_coverage": "how often their error bars hold",
        },
    ),
    "Models of tables": (
        "Additive and linear models of columns.",
        {
            "additive_fits": "single fits of a long-tailed count",
            "hospital": "the hospital of the README",
            "additive_models": "additive models",
            "linear_regressor": "linear regression",
            "table_models": "every model on small tables",
            "table_missing": "missing cells",
            "explanation_bands": "bands of explanations",
        },
    ),
    "Linear classifiers": (
        "Accuracy, mostly on images, and speed.",
        {
            "margins_frontier": "image features",
            "margins_frontier_cifar": "CIFAR-10",
            "margins_frontier_cifar_parts": "CIFAR-10, the share of each kind of features",
            "margins_frontier_cifar_tries": "CIFAR-10, tried on held-out rows",
            "margins_frontier_steps": "fewer steps",
            "margins_heldout": "rules chosen on held-out rows",
            "margins_peers_adult": "compared with others, Adult",
            "margins_peers_mnist": "compared with others, MNIST",
            "margins_speed": "speed of minimisers",
            "linear_growth": "the share of each part, and growth",
            "speed": "every estimator, and how its time grows",
            "speed_tries": "ways that were tried",
            "speed_changes": "before and after",
            "speed_scattering": "scattering features",
            "accelerator": "on a GPU",
            "accelerator_tries": "settings tried there",
        },
    ),
    "Synthetic rows": (
        "What can be learned from fabricated rows; experiments led to the algorithm of today.",
        {
            "fabricated_tables": "tables",
            "fabricated_tables_peers": "tables by other packages",
            "fabricated_tables_tries": "tables, experiments",
            "fabrication_record": "private hulls, whole records",
            "fabrication_learners": "learners on fabricated rows",
            "fabrication_speed": "60,000 x 784",
            "fabrication_data": "private hulls and others, four sets",
        },
    ),
    "Densities, curves, kernel machines, margins": (
        "Released functions and ellipsoids.",
        {
            "densities": "smoothed densities and histograms",
            "densities_tries": "densities, experiments",
            "functions_rate": "risk against rows",
            "functions_plane": "kernel machines in the plane",
            "functions_tables": "kernel classifiers of tables",
            "functions_curves": "mean curves",
            "large_margin_mixtures": "mixtures of large-margin ellipsoids",
        },
    ),
    "Kernel affine hulls": (
        "Without privacy: accuracy and speed.",
        {
            "hulls_mnist": "all of MNIST",
            "hulls_rivals_mnist": "compared with others, MNIST",
            "hulls_rivals_digits": "compared with others, digits",
            "hulls_sizes": "the paper's Table 11",
            "hulls_oracle": "against the formulas as printed",
            "hulls_growth": "growth",
            "hulls_bounds": "branches that a proved bound leaves",
        },
    ),
    "Membership mappings and transfer": (
        "From a source with many labels.",
        {
            "mappings_oracle": "against the algorithms as printed",
            "mappings_mnist": "all of MNIST",
            "mappings_labels": "few labels",
            "mappings_usps_mnist": "USPS to MNIST",
        },
    ),
    "Several parties": (
        "Sums and models over parties.",
        {
            "parties_accuracy": "MNIST, record epsilon 3",
            "parties_pixels": "raw pixels",
            "parties_scenarios": "parties of all kinds",
            "parties_linear": "linear classifiers",
            "parties_gradients": "fewer gradients",
            "parties_tries": "hulls in other settings",
            "parties_masking": "what masks cost",
            "federated_hulls": "hulls, entry epsilon 16",
            "federated_record": "hulls, record epsilon 3",
        },
    ),
    "Several rows per person": (
        "Protecting all rows of a person.",
        {
            "persons_mnist": "ten rows per writer",
            "persons_doctor": "doctor contacts",
            "persons_speed": "speed",
            "persons_odd": "odd columns of IDs",
        },
    ),
    "Search and runs of others": (
        "One charge for all settings.",
        {"search": "private search", "opacus": "runs of Opacus, charged"},
    ),
    "Audits and attacks": (
        "What attacks find, and what they miss.",
        {
            "auditing_power": "broken mechanisms caught, right ones accused",
            "auditing_density": "density difference",
            "auditing_matches": "images found again in a release",
        },
    ),
    "Foundations": (
        "Noise, moments, memory, large tables, the service, tests.",
        {
            "noise": "exact noise",
            "moments_mnist": "Gaussian classifier",
            "engines_memory": "tables larger than memory",
            "engines_cluster": "Dask workers",
            "memory": "memory of a fit",
            "terms": "what the check of terms costs",
            "service": "a crowd that submits to the service while it is killed",
            "coverage": "what the tests run",
            "fuzzed_cells": "fuzzed cells of tables",
            "mutation": "planted bugs that tests notice",
        },
    ),
}
SHOWN = {name for _, results in CHAPTERS.values() for name in results}


def rebuild() -> None:
    """Write the page and the charts from the results."""
    folder = RESULTS.parent / "charts"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    parts = [HEAD]
    for title, (about, results) in CHAPTERS.items():
        parts.append(f"## {title}\n\n{about}\n")
        there = [name for name in results if (RESULTS / f"{name}.json").is_file()]
        links: list[str] = []
        for name in there:
            kept = json.loads((RESULTS / f"{name}.json").read_text())
            old = "†" if kept.get("date", NEW) < NEW else ""
            links.append(f"[{results[name]}]({SOURCE}/{name}.json){old}")
            numbers = kept["numbers"]
            for place, drawn in enumerate(charts(name, numbers), 1):
                (folder / f"{name}-{place}.svg").write_text(drawn)
                parts.append(f"![{title_of(drawn)}{old}](charts/{name}-{place}.svg)\n")
        parts.append(f"Numbers: {' · '.join(links)}\n")
    (RESULTS.parent / "README.md").write_text("\n".join(parts))


if __name__ == "__main__":
    rebuild()
