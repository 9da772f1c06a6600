"""Kept results in the form of a reproduction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.recording import RESULTS
from sfumato.papers import Comparison

FIELDS = ("what", "printed", "paper", "strict", "within", "better", "unit", "paper_sd", "strict_sd")


@dataclass(frozen=True)
class Recorded:
    """What is known of an entry at full size: of all of it, or of the cells that it `covers`."""

    comparisons: tuple[Comparison, ...]
    claims: Mapping[str, bool]
    remarks: tuple[str, ...]
    sources: tuple[str, ...]
    runs: int
    cpu_seconds: float | None
    covers: str


def from_runs(*names: str) -> Recorded:
    """Return what a full run of the entry wrote, or runs of its cells together."""
    kept = [json.loads((RESULTS / f"{name}.json").read_text()) for name in names]
    seconds = [each.get("cpu_seconds") for each in kept]
    cells = [",".join(f"{k}={v}" for k, v in each.get("cell", {}).items()) for each in kept]
    return Recorded(
        tuple(
            Comparison(*(row.get(f) for f in FIELDS))
            for each in kept
            for row in each["comparisons"]
        ),
        {claim: holds for each in kept for claim, holds in each["claims"].items()},
        tuple(dict.fromkeys(remark for each in kept for remark in each["remarks"])),
        names,
        min(each["runs"] for each in kept),
        None if None in seconds else sum(seconds),
        "; ".join(filter(None, cells)),
    )
