"""Kept results in the form of a reproduction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.recording import RESULTS
from sfumato.papers import Comparison

FIELDS = ("what", "printed", "paper", "strict", "within", "better", "unit", "paper_sd", "strict_sd")


@dataclass(frozen=True)
class Recorded:
    """What is known of an entry at full size.

    Attributes
    ----------
    comparisons, claims, remarks
        As of `sfumato.papers.Outcome`.
    sources : tuple of str
        Names of the files under results/ that the numbers come from.
    time, machine : str
        How long the numbers took, and on what.
    covers : str, optional
        How much of the entry they are, where they are not all of it; stands beside the verdict.
    """

    comparisons: tuple[Comparison, ...]
    sources: tuple[str, ...]
    time: str
    machine: str
    claims: Mapping[str, bool] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    covers: str | None = None


def read(name: str) -> dict[str, Any]:
    """Read a kept result."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text()))


def machine_of(kept: Mapping[str, Any]) -> str:
    """Name the machine of a kept result."""
    machine = kept["machine"]
    device = machine.get("device") or kept.get("device")
    cores = f"{machine['processor']}, {machine['cores']} cores".replace("(R)", "")
    return cores if device is None else f"{cores}, one GPU"


def from_run(name: str) -> Recorded:
    """Return what a full run of the entry wrote."""
    kept = read(name)
    rows = tuple(Comparison(*(row.get(f) for f in FIELDS)) for row in kept["comparisons"])
    seconds = kept["seconds"]
    time = f"{seconds / 60:.1f} min" if seconds >= 60 else f"{max(1, seconds):.0f} s"
    machine = f"{machine_of(kept)}, {kept['threads']} thread(s)"
    remarks = tuple(kept["remarks"])
    return Recorded(rows, (name,), time, machine, kept["claims"], remarks)
