"""Entries of the paper on membership mappings whose numbers are in benchmarks of the same task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.recording import RESULTS
from benchmarks.reproductions.recorded import Recorded, machine_of, read
from sfumato.papers import Comparison
from sfumato.papers.cdmma.digits import (
    REMARKS,
    TABLE_1,
    TABLE_1_WITHIN,
    TABLE_2,
    TABLE_2_DEVIATION,
    TABLE_3,
    TABLE_3_WITHIN,
)
from sfumato.papers.cdmma.office import NOT_JUDGED, PRINTED, REMARKS as OFFICE_REMARKS

PAPER, LABELS, USPS, OFFICE = (
    "mappings_paper",
    "mappings_labels",
    "mappings_usps_mnist",
    "mappings_office",
)
STRICT = "strict, entry epsilon 0.1"
UPDATE, NO_NOISE = "paper's update, epsilon 0.1", "paper's update, no noise"
CROSS_FITTED = "paper's update cross-fitted, epsilon 0.1"


SMALL = "16 x 16"  # USPS as it is
FRAMES = (
    "Strict mode protects a whole record of the source, with epsilon 1. Enlarged: the source's "
    "images brought to the size of the target's, which the paper does not do; not judged."
)


def kept_of(name: str) -> dict[str, Any]:
    """Return a kept result, or one without numbers where there is none yet."""
    return read(name) if (RESULTS / f"{name}.json").is_file() else {"numbers": []}


def _mean(runs: Sequence[dict[str, Any]]) -> float | None:
    return round(float(np.mean([run["accuracy"] for run in runs])), 4) if runs else None


def _of(pair: str) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Runs of the paper's experiment by setting, and those at record level with ten labels."""
    by_setting: dict[str, list[dict[str, Any]]] = {}
    for run in kept_of(PAPER)["numbers"]:
        if run["pair"] == pair:
            by_setting.setdefault(run["setting"], []).append(run)
    wanted = {"pair": pair, "labels_a_class": 10, "use_source": True}
    record = [n for n in kept_of(LABELS)["numbers"] if wanted.items() <= n.items()]
    return by_setting, record


def _recorded(pair: str, rows: Callable[[dict[str, Any]], list[Comparison]]) -> Recorded | None:
    runs, record = _of(pair)
    if not runs:
        return None
    found = rows({name: _mean(each) for name, each in runs.items()})
    if CROSS_FITTED in runs:
        what = "epsilon 0.1, each row labelled by a model that did not see it"
        found.append(Comparison(what, None, _mean(runs[CROSS_FITTED]), None))
    if record:
        found.append(Comparison("epsilon 1, a whole record", None, None, record[0]["accuracy"]))
    every = [run for each in runs.values() for run in each]
    minutes = sum(run["fit_cpu_s"] for run in every) / 60
    minutes += sum(each[0]["source_wall_s"] for each in runs.values()) / 60
    numbers = ", ".join(f"{len(each)} of {name}" for name, each in runs.items())
    return Recorded(
        tuple(row for row in found if row.paper is not None or row.strict is not None),
        (PAPER, LABELS) if record else (PAPER,),
        f"{minutes:.0f} min of fits",
        machine_of(read(PAPER)),
        remarks=(*REMARKS, f"Runs: {numbers}. One release of a source for all runs of a setting."),
        covers=None if {UPDATE, STRICT} <= runs.keys() else "a part of the runs",
    )


def table_1() -> Recorded | None:
    """MNIST to MNIST."""
    return _recorded(
        "MNIST->MNIST",
        lambda mean: [
            Comparison(
                "epsilon 0.1, a pixel",
                TABLE_1,
                mean.get(UPDATE),
                mean.get(STRICT),
                TABLE_1_WITHIN,
                "higher",
            )
        ],
    )


def table_2() -> Recorded | None:
    """MNIST to USPS."""

    def rows(mean: dict[str, Any]) -> list[Comparison]:
        settings = {
            0.1: ("epsilon 0.1, a pixel", UPDATE, STRICT),
            np.inf: ("no noise", NO_NOISE, ""),
        }
        return [
            Comparison(
                what,
                TABLE_2[epsilon],
                mean.get(paper),
                mean.get(strict),
                2 * TABLE_2_DEVIATION[epsilon],
                "higher",
            )
            for epsilon, (what, paper, strict) in settings.items()
        ]

    return _recorded("MNIST->USPS", rows)


def table_3() -> Recorded | None:
    """USPS to MNIST: strict mode at record level."""
    kept = kept_of(USPS)
    by_labels: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for run in kept["numbers"]:
        by_labels.setdefault((run.get("frame", SMALL), run["labels"]), []).append(run)
    rows = [_by_labels(*key, runs) for key, runs in sorted(by_labels.items())]
    judged = [row for row in rows if row.within is not None]
    if not judged:
        return None
    minutes = sum(run["fit_cpu_s"] for run in kept["numbers"]) / 60
    return Recorded(
        tuple(rows),
        (USPS,),
        f"{minutes:.0f} min of fits",
        machine_of(kept),
        claims={"accuracy rises with the number of labels": _rises(judged)},
        remarks=(
            *REMARKS,
            FRAMES,
            f"Runs: {max(map(len, by_labels.values()))}; strict mode alone.",
        ),
        covers=f"strict mode, {len(judged)} of {len(TABLE_3)} figures",
    )


def _by_labels(frame: str, labels: int, runs: Sequence[dict[str, Any]]) -> Comparison:
    what, printed = f"{labels} labels, epsilon 1 a record", TABLE_3[labels]
    if frame == SMALL:
        return Comparison(what, printed, None, _mean(runs), TABLE_3_WITHIN, "higher")
    return Comparison(f"{what}, {frame}", None, None, _mean(runs), None)


def _rises(rows: Sequence[Comparison]) -> bool:
    return len(rows) < 2 or (rows[-1].strict or 0.0) > (rows[0].strict or 0.0)


def office(first: str, second: str, printed: float, printed_svm: float) -> Recorded | None:
    """One pair of domains: strict mode beside a linear machine."""
    kept = kept_of(OFFICE)
    found = [n for n in kept["numbers"] if n["pair"] == f"{first}->{second}"]
    if not found:
        return None
    ours, svm = found[0]["entry epsilon 0.1"], found[0]["linear SVM"]
    what = "transfer, epsilon 0.1, an entry"
    return Recorded(
        (
            Comparison(what, printed, None, ours, NOT_JUDGED),
            Comparison("SVM-t, no transfer", printed_svm, svm, None, NOT_JUDGED),
        ),
        (OFFICE,),
        "about 1 min",
        machine_of(kept),
        claims={"transfer is more accurate than SVM-t": ours > svm},
        remarks=OFFICE_REMARKS,
        covers="strict mode",
    )


RECORDED: dict[str, Callable[[], Recorded | None]] = {
    "table-1": table_1,
    "table-2": table_2,
    "table-3": table_3,
    **{f"table-{n}": partial(office, a, b, ours, svm) for n, a, b, ours, svm in PRINTED},
}
