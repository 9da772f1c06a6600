"""Kept results in the form of a reproduction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.recording import RESULTS
from sfumato.papers import Comparison

FIELDS = ("what", "printed", "paper", "strict", "within", "unit", "paper_sd", "strict_sd")


class Row(NamedTuple):
    """A figure beside the printed one, how many runs it is of, and when and on what they ran."""

    comparison: Comparison
    runs: int
    ran: str


@dataclass(frozen=True)
class Recorded:
    """What is known of an entry at full size: of all of it, or of the cells that it `covers`."""

    rows: tuple[Row, ...]
    claims: Mapping[str, bool]
    remarks: tuple[str, ...]
    sources: tuple[str, ...]
    runs: str
    cpu_seconds: float
    covers: str

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The figures alone."""
        return tuple(row.comparison for row in self.rows)


def from_runs(*names: str) -> Recorded:
    """Return what runs of an entry or of its cells wrote; a later file replaces rows."""
    kept = [json.loads((RESULTS / f"{name}.json").read_text()) for name in names]
    rows = {}
    for each in kept:
        ran = " ".join(filter(None, (each["date"], each["machine"]["device"])))
        for row in each["comparisons"]:
            found = Comparison(*(row.get(f) for f in FIELDS))
            rows[row["what"], row["unit"]] = Row(found, each["runs"], ran)
    runs = sorted({row.runs for row in rows.values()} or {each["runs"] for each in kept})
    cells = [",".join(f"{k}={v}" for k, v in each.get("cell", {}).items()) for each in kept]
    return Recorded(
        tuple(rows.values()),
        {claim: holds for each in kept for claim, holds in each["claims"].items()},
        tuple(dict.fromkeys(remark for each in kept for remark in each["remarks"])),
        names,
        " to ".join(map(str, runs[:: max(1, len(runs) - 1)])),
        sum(each["cpu_seconds"] for each in kept),
        "; ".join(cells) if all(cells) else "",
    )
