"""Record golden releases, or compare a run with them.

``python -m tests.golden.record`` records all of them, with subjects as arguments only these. It
runs everything twice, the second time with other kernels of BLAS and without vector instructions:
a release whose exact sum is the same in both is compared to the bit everywhere, and everything
else must be as near as the test asks for on other machines.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sfumato.audit.testing import seeded_noise
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.base import taped
from tests.golden.cases import ALL, Case, cases

FOLDER = Path(__file__).parent
ELSEWHERE = 1e-9  # largest difference between machines, relative to the largest number
SHOWN = 1  # leading numbers of a release
SMALL = 6  # those of what is learned; arrays of that many are kept whole
OTHER_MACHINE = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX",
}


class Spy:
    """A ledger that pays for everything and notes what was charged."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.words: set[str] = set()

    def __deepcopy__(self, memo: object) -> Spy:
        return self

    def charge(self, *events: Any, unit: Any = None, relation: Any = None) -> Receipt:
        self.words.add(f"{unit}, {relation}")
        self.note(events)
        return Receipt(events, unit=unit, relation=relation)

    def note(self, events: Any) -> None:
        for event in events:
            values, times = event.to_dict(), 1
            while values["kind"] == "repeated":  # the same as that many single ones
                times, values = times * values["count"], values["event"]
            self.events[json.dumps(values, sort_keys=True)] += times


def recorded(case: Case) -> dict[str, Any]:
    """Run a case under seeded noise and describe it."""
    ledger = Spy()
    with warnings.catch_warnings(), seeded_noise(case.seed), taped() as tape:
        warnings.simplefilter("ignore")
        model, answers = case.run(ledger)
    promised = getattr(model, "guarantee_", None) or getattr(model, "guarantee", None)
    if not ledger.events and promised is not None:  # where others pay
        ledger.note(promised.events)
    return {
        "charged": sorted(ledger.words),
        "events": dict(sorted(ledger.events.items())),
        "epsilon": None if promised is None else promised.epsilon,
        "releases": [
            {
                **_figures(np.ravel(each.statistic), SHOWN),
                "released": _figures(each.output, SHOWN).get("hash"),
            }
            for each in tape.releases
        ],
        "learned": {
            name: found
            for name, value in sorted(_learned(model).items())
            if (found := _described(value)) is not None
        },
        "answers": {name: _described(value) for name, value in answers.items()},
    }


def _learned(model: Any) -> dict[str, Any]:
    if isinstance(model, BaseEstimator):
        return {
            name: value
            for name, value in vars(model).items()
            if name.endswith("_") and not name.startswith("_")
        }
    return {k: v for k, v in vars(model).items() if isinstance(v, float | int)}


def _described(value: Any) -> dict[str, Any] | None:
    if isinstance(value, pd.DataFrame):
        columns = {name: value[name].to_numpy() for name in value}
        return {
            "columns": {
                name: _described(each) or _text(str(list(each))) for name, each in columns.items()
            }
        }
    try:
        array = np.asarray(value)
    except ValueError:  # arrays of many shapes
        return None
    if array.dtype.kind in "fiub":
        return _figures(array, SMALL)
    if array.dtype.kind in "OUS" and all(isinstance(each, str) for each in array.ravel()):
        return _text("\n".join(array.ravel()))
    return None


def _text(value: str) -> dict[str, Any]:
    return {"text": value[:120], "hash": _hash(value.encode())}


def _figures(value: Any, shown: int) -> dict[str, Any]:
    """Return the bits of numbers as a hash, and a few numbers that any of them would move."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"numbers": []}  # an objective, not a sum: what is released shows it
    array = np.ravel(np.asarray(value, dtype=np.float64, order="C")) + 0.0  # no negative zeros
    found = {"shape": list(np.shape(value)), "hash": _hash(array.tobytes())}
    if len(array) <= shown:
        return found | {"numbers": [*map(_number, array)]}
    finite = np.where(np.isfinite(array), array, 0.0)
    weights = 1 + np.modf(np.arange(len(array)) * math.sqrt(2))[0]
    whole = [math.fsum(finite * weights) / len(array), float(np.abs(finite).max())]
    return found | {"numbers": [*map(_number, [*array[:shown], *whole])]}


def _number(value: float) -> float | str:
    return float(f"{value:.12g}") if math.isfinite(value) else str(value)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


# Comparing ---------------------------------------------------------------------------------------


def differences(
    kept: dict[str, Any], found: dict[str, Any], loose: dict[str, float], *, bits: bool
) -> list[str]:
    """List in what a run differs from a kept one."""
    said = [
        f"{what}: {kept[what]} was kept, {found[what]} found"
        for what in ("charged", "events", "epsilon")
        if kept[what] != found[what]
    ]
    if len(kept["releases"]) != len(found["releases"]):
        said.append(f"{len(kept['releases'])} releases kept, {len(found['releases'])} found")
    for number, (old, new) in enumerate(zip(kept["releases"], found["releases"], strict=False)):
        exact = bits or old.get("exact", True)
        if fault := _difference(old, new, 0.0 if exact else loose.get("releases", ELSEWHERE)):
            said.append(f"exact sum of release {number}: {fault}")
        elif exact and old["released"] != new["released"]:
            said.append(f"release {number}: other noise was added to the same sum")
    for group in ("learned", "answers"):
        for name, old in kept[group].items():
            if (new := found[group].get(name)) is None:
                said.append(f"{name} is gone")
            elif fault := _difference(old, new, 0.0 if bits else loose.get(name, ELSEWHERE)):
                said.append(f"{name}: {fault}")
    return said


def _difference(old: dict[str, Any], new: dict[str, Any], within: float) -> str:
    if "columns" in old and list(old["columns"]) == list(new.get("columns", ())):
        pairs = zip(old["columns"].values(), new["columns"].values(), strict=True)
        return next(filter(None, (_difference(a, b, within) for a, b in pairs)), "")
    if old.get("hash") == new.get("hash") and old.get("shape") == new.get("shape"):
        return ""
    if within == math.inf:
        return ""
    if within and "numbers" in old and old.get("shape") == new.get("shape"):
        a, b = (np.array(each["numbers"], dtype=float) for each in (old, new))
        scale = np.abs(a[np.isfinite(a)]).max(initial=0.0)
        if a.shape == b.shape and np.allclose(a, b, rtol=0, atol=within * scale, equal_nan=True):
            return ""
    return f"{_short(old)} was kept, {_short(new)} found"


def _short(described: dict[str, Any]) -> str:
    return str({k: v for k, v in described.items() if k != "hash"})


# Recording ---------------------------------------------------------------------------------------


def run_all(subjects: list[str]) -> dict[str, dict[str, Any]]:
    """Run all cases of some subjects."""
    return {
        subject: {name: recorded(case) for name, case in cases(subject).items()}
        for subject in subjects
    }


def _elsewhere(subjects: list[str]) -> dict[str, dict[str, Any]]:
    """Do it in a process that calculates as another machine would."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        command = [sys.executable, "-m", "tests.golden.record", "--to", str(path), *subjects]
        subprocess.run(command, env={**os.environ, **OTHER_MACHINE}, check=True)
        found: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return found


def record(subjects: list[str]) -> list[str]:
    """Write the files; list what differs by more than the test allows between machines."""
    here = json.loads(json.dumps(run_all(subjects)))
    there = _elsewhere(subjects)
    said = []
    for subject in subjects:
        known = cases(subject)
        for name, kept in here[subject].items():
            other = there[subject][name]
            for old, new in zip(kept["releases"], other["releases"], strict=True):
                if _difference(old, new, 0.0) or old["released"] != new["released"]:
                    old["exact"] = False
            said += [
                f"{subject}, {name}: {fault}"
                for fault in differences(kept, other, known[name].loose, bits=False)
            ]
        lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in here[subject].items())
        (FOLDER / f"{subject}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return said


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--to"]:
        Path(arguments[1]).write_text(json.dumps(run_all(arguments[2:])))
    else:
        faults = record(arguments or list(ALL))
        sys.stdout.write("".join(f"{fault}\n" for fault in faults))
        sys.exit(bool(faults))
