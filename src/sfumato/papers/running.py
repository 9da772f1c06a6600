"""Run an entry, time it, and keep what it gave: JSON and a picture, each written aside."""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from operator import methodcaller
from pathlib import Path
from types import MappingProxyType
from typing import Any

from threadpoolctl import threadpool_limits

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning, UnprotectedScoreWarning
from sfumato.papers.entry import Entry, Outcome, Setting, Verdict, verdict_of
from sfumato.papers.pictures import can_draw, picture

NO_PICTURE = "No picture: matplotlib is not installed; `pip install sfumato[plot]` brings it."
PACKAGES = ("numpy", "scikit-learn", "sfumato")


@dataclass(frozen=True)
class Reproduction:
    """An entry that was run.

    Parameters
    ----------
    entry : Entry
        What was run.
    setting : Setting
        How it was run.
    outcome : Outcome
        What it gave.
    verdict : str
        What follows from it.
    seconds, cpu_seconds : float
        By the clock on the wall, and of this process on all its cores.
    """

    entry: Entry
    setting: Setting
    outcome: Outcome
    verdict: Verdict
    seconds: float
    cpu_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the picture as JSON values.

        Returns
        -------
        dict
            Entry, setting, comparisons, claims, verdict, machine and versions.
        """
        versions = {}
        for package in PACKAGES:
            with suppress(PackageNotFoundError):  # Sfumato itself may run from its sources
                versions[package] = version(package)
        kind, _, number = self.entry.name.partition("-")
        cell = ",".join(f"{name}={value}" for name, value in self.setting.cell.items())
        words = ["sfumato reproduce", self.entry.paper, f"--{kind}", number]
        words += ["--cell", cell] * bool(cell) + ["--quick"] * self.setting.quick
        return {
            "command": " ".join([*words, "--runs", str(self.setting.runs)]),
            "paper": self.entry.paper,
            "entry": self.entry.name,
            "title": self.entry.title,
            "data": self.entry.data,
            "quick": self.setting.quick,
            "runs": self.setting.runs,
            "cell": dict(self.setting.cell),
            "verdict": self.verdict,
            "broken": self.entry.broken,
            "comparisons": [
                {**asdict(row), "agrees": row.agrees} for row in self.outcome.comparisons
            ],
            "claims": dict(self.outcome.claims),
            "remarks": list(self.outcome.remarks),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": round(self.seconds, 2),
            "cpu_seconds": round(self.cpu_seconds, 2),
            "machine": {
                "processor": processor(),
                "cores": os.cpu_count(),
                "device": self.setting.device,
            },
            "threads": os.environ.get("OMP_NUM_THREADS", "all"),
            "python": platform.python_version(),
            "versions": versions,
            "series": dict(self.outcome.series),
        }

    def to_json(self) -> str:
        """Return `to_dict` as text, long series on one line; numbers must be finite.

        Returns
        -------
        str
            JSON.
        """
        whole, plain = self.to_dict(), methodcaller("tolist")  # of NumPy
        series = json.dumps(whole.pop("series"), default=plain, allow_nan=False)
        text = json.dumps(whole, indent=2, default=plain, allow_nan=False)
        body = text.removesuffix("\n}")
        return f'{body},\n  "series": {series}\n}}\n'


def reproduce(entry: Entry, setting: Setting | None = None) -> Reproduction:
    """Run an entry and judge what it gave.

    Parameters
    ----------
    entry : Entry
        What to run.
    setting : Setting, optional
        How; by default at full size, three runs.

    Returns
    -------
    Reproduction
        The outcome, with its verdict.
    """
    setting = setting or Setting()
    if setting.runs < 1:
        raise InvalidInputError(f"'runs' must be at least 1. Got {setting.runs} instead.")
    unknown = set(setting.cell) - set(entry.cells)
    if unknown:
        there = ", ".join(entry.cells) or "none"
        raise InvalidInputError(
            f"A cell of this entry is named by {there}. Got {min(unknown)!r} instead."
        )
    begun, cpu = time.perf_counter(), time.process_time()
    # On a busy machine threads of BLAS wait for one another longer than small products take.
    with warnings.catch_warnings(), threadpool_limits(1 if setting.quick else None):
        # The verdict and `broken` say it, next to the figures.
        warnings.simplefilter("ignore", RefutedGuaranteeWarning)
        warnings.simplefilter("ignore", UnprotectedScoreWarning)  # the rows are public
        warnings.filterwarnings("ignore", message="The target is not protected")
        outcome = entry.run(setting)
    seconds = time.perf_counter() - begun
    verdict = verdict_of(entry, outcome, quick=setting.quick)
    cpu = time.process_time() - cpu
    return Reproduction(entry, setting, outcome, verdict, seconds, cpu)


def result_file(entry: Entry, folder: Path, cell: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Return the place of the figures of an entry, or of one cell of it."""
    parts = [entry.paper, entry.name, *(f"{name}-{value}" for name, value in cell.items())]
    return folder / f"{'-'.join(parts)}.json"


def keep(found: Reproduction, folder: Path) -> list[Path]:
    """Write ``<paper>-<entry>.json`` and, of a picture where matplotlib is there, ``.png``.

    Parameters
    ----------
    found : Reproduction
        What to keep.
    folder : Path
        Where; made if it is not there.

    Returns
    -------
    list of Path
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [result_file(found.entry, folder, found.setting.cell)]
    with atomic_write(files[0]) as file:
        file.write(found.to_json().encode())
    if found.outcome.series and can_draw():
        files.append(files[0].with_suffix(".png"))
        with atomic_write(files[1]) as file:
            small = " (quick run, other data)" if found.setting.quick else ""
            picture(found.entry.title + small, found.outcome.series, file)
    return files


def processor() -> str:
    """Name the processor of this machine."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor()
