"""With the released values held fixed, nothing that comes over HTTP may depend on the rows."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from sfumato.audit.testing import seeded_noise
from sfumato.mechanisms.base import Tape, taped
from sfumato.service import tasks, workers
from tests.service.house import TABLE, House, write_table

TASKS: list[dict[str, Any]] = [
    {"estimator": "PrivateGaussianClassifier"},
    {"estimator": "PrivateAdditiveClassifier"},
    {"kind": "fabricate", "estimator": "Fabricator", "rows": 20},
    {"kind": "density", "estimator": "PrivateDensity", "columns": ["age"]},
    {"kind": "statistic", "estimator": "release_mean", "columns": ["bmi"], "epsilon": 0.1},
    {"estimator": "PrivateGaussianClassifier", "parameters": {"gaussians_per_class": -1}},
]
PLACES = ("/jobs", "/datasets", "/releases", "/datasets/patients")
# What is different in every run: times, random names and marks, hashes and signatures of them.
HASH = r'(?<!"seal": )"[0-9a-f]{64}'  # of other things than bounds
VARIABLE = re.compile(
    r"\d{4}-\d\d-\d\d[T ][\d:.]+(\+00:00)?|\b[0-9a-f]{64,128}\b|\b([0-9a-f]{16}){1,2}\b|sfm_\w+"
)


def everything(
    folder: Path,
    rows: str,
    tapes: list[Tape],
    caplog: pytest.LogCaptureFixture,
    described: str | None = None,
    **promise: Any,
) -> list[str]:
    """Go the whole way on some rows, in this process, and collect all that anybody can see."""
    folder.mkdir(parents=True)
    (folder / TABLE).write_text(described or rows)
    house, seen = House(folder), []
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    house.open(**promise)
    (folder / TABLE).write_text(rows)
    playback = list(tapes)
    for asked in TASKS:
        job = house.submit(**asked)
        claimed = house.workers.store.claim()
        assert claimed is not None
        with seeded_noise(0), taped(playback=playback.pop(0) if playback else None) as tape:
            workers.run_job(house.workers.office, claimed)
        tapes.append(tape)
        answer = house.call("ada", "GET", f"/jobs/{job['id']}")
        seen.append(json.dumps(answer))
        if answer["state"] != "released":
            continue
        release = house.call("ada", "GET", f"/releases/{job['id']}")
        seen.append(json.dumps(release))
        for name in release["files"]:
            content = house.call("ada", "GET", f"/releases/{job['id']}/files/{name}")
            text = content if isinstance(content, bytes) else json.dumps(content).encode()
            is_text = name.endswith((".json", ".csv"))
            seen.append(text.decode() if is_text else f"{name}: {len(text)} bytes")
    for path in PLACES:
        seen.append(json.dumps(house.call("ada", "GET", path)))
        assert "/datasets" not in path or not re.search(HASH, seen[-1]), "a hash of rows"
    seen += [record.getMessage() for record in caplog.records if record.name != "asyncio"]
    house.close()
    return [VARIABLE.sub("#", text) for text in seen]


ODD = '1e308,"heavy; 99",Lovelace,perhaps'
RAGGED = '1;2,3,,,,,"'


def neighbours(folder: Path, line: str = ODD) -> tuple[str, str]:
    """One row of the table is another: odd cells, far outside of the bounds, an unknown label."""
    write_table(folder / "rows.csv")
    lines = (folder / "rows.csv").read_text().splitlines()
    other = [*lines[:7], line, *lines[8:]]
    return "\n".join(lines) + "\n", "\n".join(other) + "\n"


def test_answers_do_not_depend_on_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows, other = neighbours(tmp_path)
    tapes: list[Tape] = []
    first = everything(tmp_path / "a", rows, tapes, caplog)
    assert sum('"state": "released"' in text for text in first) >= 6
    again = everything(tmp_path / "b", other, list(tapes), caplog)
    assert len(first) == len(again)
    for one, two in zip(first, again, strict=True):
        assert one == two


@pytest.mark.parametrize("line", [RAGGED, "", "\x00", "é" * 300])
def test_no_line_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """A job that fails because of one line says something of that line."""
    rows, other = neighbours(tmp_path, line)
    monkeypatch.setattr(f"{__name__}.TASKS", TASKS[:1])
    tapes: list[Tape] = []
    first = everything(tmp_path / "a", rows, tapes, caplog)
    assert '"state": "released"' in first[0]
    again = everything(tmp_path / "b", other, list(tapes), caplog, described=rows)
    assert first == again


SECRET_NUMBER: list[dict[str, Any]] = [
    {"estimator": "PrivateGaussianClassifier"},
    {"kind": "fabricate", "estimator": "Fabricator", "rows": 20},
    {"kind": "statistic", "estimator": "release_counts", "epsilon": 0.1},
]


def test_answers_do_not_depend_on_the_number_of_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one row is added or removed, even the last one: a table may be a line of names."""
    monkeypatch.setattr(f"{__name__}.TASKS", SECRET_NUMBER)
    lines = neighbours(tmp_path)[0].splitlines()
    promise = {"relation": "add_or_remove_one", "epsilon": 6.0}
    tapes: list[Tape] = []
    first = everything(tmp_path / "a", "\n".join(lines) + "\n", tapes, caplog, **promise)
    assert sum(text.count('"state": "released"') for text in first) == 5 * len(TASKS)
    for place, kept in enumerate((lines[:-9], lines[:1])):
        rows, described = ("\n".join(each) + "\n" for each in (kept, lines))
        again = everything(tmp_path / str(place), rows, list(tapes), caplog, described, **promise)
        assert len(first) == len(again)
        for one, two in zip(first, again, strict=True):
            assert one == two


def test_a_planted_leak_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: a worker that says how many lines have a town that nobody declared."""
    rows, other = neighbours(tmp_path)
    real = tasks.make_release

    def leaking(dataset: Any, job: Any, table: Any, *rest: Any) -> dict[str, Any]:
        record = real(dataset, job, table, *rest)
        return record | {"odd": table.path.read_text().count("Lovelace")}

    monkeypatch.setattr(tasks, "make_release", leaking)
    monkeypatch.setattr(f"{__name__}.TASKS", TASKS[:1])
    tapes: list[Tape] = []
    first = everything(tmp_path / "a", rows, tapes, caplog)
    assert first != everything(tmp_path / "b", other, list(tapes), caplog)
