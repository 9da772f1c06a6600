"""Private hulls and fabricated rows."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _entry(numbers: list[dict[str, Any]]) -> str:
    found = {(r["epsilon"], r["mode"], r["definition"]): r for r in numbers}
    rows = []
    for epsilon in sorted({r["epsilon"] for r in numbers}):
        row: list[Any] = [epsilon]
        for definition in (15, 12):
            row.append(found[epsilon, "paper", definition]["paper"])
            row += [found[epsilon, mode, definition]["accuracy"] for mode in ("paper", "strict")]
        rows.append(row)
    titles = ["epsilon"]
    for definition in (15, 12):
        titles += [f"Def. {definition} {how}" for how in ("printed", "`paper`", "`strict`")]
    text = (
        "Unit entry, d = 1, delta 1e-5, mean of three runs. Mode `paper` does not keep its promise."
    )
    return f"{text}\n\n{rows_of(titles, rows)}"


def _record(numbers: list[dict[str, Any]]) -> str:
    return (
        "Unit record, replace one, delta 1e-5; pixels or gradient histograms, rows of length 1."
        "\n\n"
        + rows_of(
            ["features", "epsilon", "accuracy", "standard deviation", "runs", "fit s"],
            [
                [
                    r["features"],
                    r["epsilon"],
                    r["accuracy"],
                    r["accuracy_std"],
                    r["runs"],
                    r["fit_wall_s"],
                ]
                for r in numbers
            ],
        )
    )


def _learners(numbers: list[dict[str, Any]]) -> str:
    return "Unit record, delta 1e-5.\n\n" + rows_of(
        ["learner", "epsilon", "accuracy", "standard deviation", "runs"],
        [
            [
                r["learner"].replace("_", " "),
                r["epsilon"],
                r["accuracy"],
                r["accuracy_std"],
                r["runs"],
            ]
            for r in sorted(numbers, key=lambda r: r["learner"])
        ],
    )


def _local(numbers: list[dict[str, Any]]) -> str:
    return "Unit record, delta 1e-5; every row and label gets its own noise.\n\n" + rows_of(
        ["epsilon", "rows", "accuracy", "standard deviation", "runs"],
        [[r["epsilon"], r["rows"], r["accuracy"], r["accuracy_std"], r["runs"]] for r in numbers],
    )


def _speed(numbers: list[dict[str, Any]]) -> str:
    return rows_of(
        ["unit", "epsilon", "wall s", "CPU s", "peak GiB so far"],
        [[r["unit"], r["epsilon"], r["wall_s"], r["cpu_s"], r["peak_gib"]] for r in numbers],
    )


def _data(numbers: list[dict[str, Any]]) -> str:
    text = (
        "delta 1e-5 for ours, 0 for diffprivlib. Bounds and splits: `bench_fabrication_data.py`. "
        "A cell is accuracy (balanced accuracy)."
    )
    columns = sorted({r["epsilon"] for r in numbers if r["epsilon"]})
    lines: dict[tuple[str, str, str], dict[float | None, str]] = {}
    for r in numbers:
        cell = f"{r['accuracy']:.3f} ({r['balanced_accuracy']:.3f})"
        lines.setdefault((r["data"], r["level"], r["model"]), {})[r["epsilon"]] = cell
    titles = ["data", "protected", "model", "no noise", *(f"epsilon {e:g}" for e in columns)]
    rows = [[*line, *(cells.get(e, "") for e in (None, *columns))] for line, cells in lines.items()]
    return f"{text}\n\n{rows_of(titles, rows)}"


def _fabricated_tables(numbers: list[dict[str, Any]]) -> str:
    text = (
        "One record added or removed, delta 1e-5. Margins: mean total variation over all columns, "
        "pairs and triples in public bins. Wasserstein: mean over columns of numbers, in parts of "
        "the range. Bins are the public ones of the peers; all others release their own edges "
        "(knots). Gaussians (moments) are the method of arrays. Learners are scored on test rows: "
        "means of five runs; of tables other than Adult they see four fifths of the rows."
    )
    rows = [
        [
            r["table"],
            r.get("method", r.get("engine")),
            r["epsilon"],
            *(r["margins"] + [""] * (3 - len(r["margins"]))),
            round(sum(r["wasserstein"].values()) / max(len(r["wasserstein"]), 1), 4),
            r.get("forest", ""),
            r.get("logistic", ""),
            r["cpu_s"],
        ]
        for r in numbers
    ]
    head = ["table", "method", "epsilon", "1-way", "2-way", "3-way", "Wasserstein"]
    return f"{text}\n\n" + rows_of([*head, "forest", "logistic", "CPU s"], rows)


def _fabricated_peers(numbers: list[dict[str, Any]]) -> str:
    text = (
        "The same tables and measures at epsilon 1, to compare with the rows above: peers see "
        "public bins, and a number is drawn evenly inside its bin. AIM is limited to 48 "
        "rounds (16 per column is its default), so that it finishes within minutes; "
        "noise of dpmm is NumPy's."
    )
    rows = []
    for r in numbers:
        if "failed" in r:
            rows.append([r["table"], r["method"], r["failed"], *[""] * 7])
            continue
        rows.append(
            [
                r["table"],
                f"{r['method']} {r['version']}",
                r["runs"],
                *(r["margins"] + [""] * (3 - len(r["margins"]))),
                round(sum(r["wasserstein"].values()) / max(len(r["wasserstein"]), 1), 4),
                r.get("forest", ""),
                r.get("logistic", ""),
                r["cpu_s"],
            ]
        )
    head = ["table", "method", "runs", "1-way", "2-way", "3-way", "Wasserstein"]
    return f"{text}\n\n" + rows_of([*head, "forest", "logistic", "CPU s"], rows)


_MARGINS = (("chosen", 0), ("chosen", 1), ("shown", 0), ("shown", 1))


def _fabricated_tries(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Adult, one record added or removed, delta 1e-5. Settings were judged on training rows: "
        "fabricated from four fifths of them, learners scored on the fifth. Figures of test rows "
        "are for the reader."
    )
    rows = [
        [
            each["epsilon"],
            each["cells"],
            each["tried"],
            *(each[part]["margins"][place] if part in each else "" for part, place in _MARGINS),
            *(
                each.get(part, {}).get(learner, "")
                for part in ("chosen", "shown")
                for learner in ("forest", "logistic")
            ),
        ]
        for each in numbers
    ]
    head = ["epsilon", "cells", "tried", "1-way", "2-way"]
    test = ["1-way, all rows", "2-way, all rows"]
    learners = ["forest", "logistic", "forest, test", "logistic, test"]
    return f"{text}\n\n" + rows_of([*head, *test, *learners], rows)


SECTIONS: Sections = {
    "fabricated_tables": ("Fabricated tables", _fabricated_tables),
    "fabricated_tables_peers": ("Fabricated tables of peers", _fabricated_peers),
    "fabricated_tables_tries": ("Fabricated tables: what was tried", _fabricated_tries),
    "fabrication_entry": ("Private hulls, MNIST: the paper's Table 5", _entry),
    "fabrication_record": ("Private hulls, MNIST: whole records", _record),
    "fabrication_learners": ("Learners on fabricated rows, MNIST", _learners),
    "fabrication_local": ("Private hulls, MNIST: the local engine", _local),
    "fabrication_speed": ("Fabrication of 60,000 x 784", _speed),
    "fabrication_data": ("Private hulls beside others, four sets", _data),
}
