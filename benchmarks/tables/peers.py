"""Ours beside other packages."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of

TITLES = ["task", "data", "epsilon", "delta", "neighbours", "measure"]
TITLES += ["ours", "value", "CPU s", "theirs", "value", "CPU s", "better by", "faster by"]
NEIGHBOURS = {"replace_one": "replace one", "add_or_remove_one": "add or remove one", None: ""}


def _peers(numbers: list[dict[str, Any]]) -> str:
    compared = [r["times_better"] for r in numbers if r["times_better"]]
    silent = sum("failed" in r["peer"] for r in numbers)
    text = (
        "Same rows, public bounds and epsilon; unit record; one thread; mean ± standard "
        "deviation of the runs. If two deltas are given, the second is the peer's; 0 is "
        "pure epsilon, a stricter guarantee. *Better by* is the peer's error over ours "
        "(of accuracies and shares: what is missing to 1), of draws ours over theirs; "
        "*faster by* is their CPU time over ours. Below 1, we lose: "
        f"{sum(value < 1 for value in compared)} of {len(compared)} rows here; in "
        f"{silent} more the peer did not finish."
    )
    return f"{text}\n\n{rows_of(TITLES, [_line(r) for r in numbers])}"


def _line(row: dict[str, Any]) -> list[Any]:
    ours, peer = row["ours"], row["peer"]
    promise = [row.get("epsilon", ""), _deltas(row), NEIGHBOURS[row.get("relation")]]
    sides = [part for side in (ours, peer) for part in _side(side)]
    ratios = [_ratio(row["times_better"]), _ratio(row["times_faster"])]
    return [row["task"], row["data"], *promise, row["measure"], *sides, *ratios]


def _side(side: dict[str, Any]) -> list[Any]:
    if "failed" in side:
        return [side["name"], side["failed"], ""]
    spread = f" ± {side['std']:.2g}" if side.get("runs", 1) > 1 else ""
    return [side["name"], f"{side['value']:.4g}{spread}", _seconds(side.get("cpu_s"))]


def _deltas(row: dict[str, Any]) -> str:
    if "delta" not in row:
        return ""
    ours, theirs = row["delta"], row.get("their_delta", row["delta"])
    return f"{ours:g}" if ours == theirs else f"{ours:g}; {theirs:g}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}" if value < 100 else f"{value:.0f}"


SECTIONS: Sections = {"peers": ("Beside other packages", _peers)}
