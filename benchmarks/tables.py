"""Rebuild benchmarks/README.md from the JSON of the last runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks.recording import RESULTS

HEAD = """# Benchmarks

`make bench` runs all of them and rebuilds this page from `results/*.json`, which hold every number
here with machine, versions and seeds. Real data are found through `SFUMATO_DATA`. Seconds are those
of one run on one machine: compare rows, not machines.
"""


def rebuild() -> None:
    """Write the page from the results that are there."""
    parts = [HEAD]
    for name, (title, table) in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if path.is_file():
            record = json.loads(path.read_text())
            parts.append(f"## {title}\n\n{_machine(record)}\n\n{table(record['numbers'])}\n")
    (RESULTS.parent / "README.md").write_text("\n".join(parts))


def _machine(record: dict[str, Any]) -> str:
    machine, versions = record["machine"], record["versions"]
    device = record.get("device", machine["processor"])
    return (
        f"{device}, {machine['cores']} cores, threads: {machine['threads']}; Python "
        f"{record['python']}, NumPy {versions['numpy']}, scikit-learn {versions['scikit-learn']}."
    )


def _rows(titles: list[str], rows: list[list[Any]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _noise(numbers: list[dict[str, Any]]) -> str:
    table = _rows(
        ["law", "million exact draws/s", "numpy.random, million/s", "times slower"],
        [
            [
                r["law"],
                r["million_draws_per_s"],
                r["numpy_million_per_s"],
                r["times_slower_than_numpy"],
            ]
            for r in numbers
            if "million_draws_per_s" in r
        ],
    )
    entry = next(r for r in numbers if r["law"] == "entry")
    return f"{table}\n\nEntry noise on {entry['draws']:,} numbers (MNIST): {entry['cpu_s']:.1f} s."


def _moments(numbers: list[dict[str, Any]]) -> str:
    return "Record level, replace one, delta 1e-5, rows scaled to unit length.\n\n" + _rows(
        ["epsilon", "accuracy", "standard deviation", "runs", "fit s"],
        [
            [r["epsilon"], r["accuracy"], r["accuracy_std"], r["runs"], r["fit_wall_s"]]
            for r in numbers
        ],
    )


def _sizes(numbers: list[dict[str, Any]]) -> str:
    return _rows(
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
    return _rows(
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
    return _rows(
        ["rows", "branches", "CPU s", "CPU ms a row"],
        [[r["N"], r["branches"], r["cpu_s"], r["cpu_ms_per_row"]] for r in numbers],
    )


def _rivals(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["model", "accuracy", "fit s", "predict s"],
        [
            [f"`{r['model']}`", r["accuracy"], r["fit"]["wall_s"], r["predict"]["wall_s"]]
            for r in numbers
        ],
    )


def _gpu(numbers: dict[str, Any]) -> str:
    return (
        f"Fit {numbers['fit']['wall_s']} s, exact prediction {numbers['predict_exact']['wall_s']} "
        f"s, accuracy {numbers['accuracy']}, {numbers['peak_gib']} GiB."
    )


SECTIONS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "noise": ("Exact noise", _noise),
    "moments_mnist": ("Private Gaussian classifier, MNIST", _moments),
    "hulls_mnist": ("Hulls: all of MNIST", _mnist),
    "hulls_rivals_mnist": ("Hulls beside others, MNIST", _rivals),
    "hulls_rivals_digits": ("Hulls beside others, digits", _rivals),
    "hulls_sizes": ("Hulls: the paper's Table 11", _sizes),
    "hulls_oracle": ("Hulls: against the formulas as printed", _oracle),
    "hulls_growth": ("Hulls: growth with the number of rows", _growth),
    "hulls_gpu": ("Hulls: all of MNIST on a GPU", _gpu),
}

if __name__ == "__main__":
    rebuild()
