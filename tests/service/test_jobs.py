"""Requests from submit to release: approval, charge, crash, cancel, retry, retire."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from sfumato import Ledger
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.privacy.guarantee import Guarantee
from sfumato.report.certificate import verified
from sfumato.service import tasks, workers
from sfumato.service.settings import Settings
from tests.service.house import TABLE, House


def charges(house: House, name: str = "patients") -> int:
    budget = SharedBudget(Ledger(house.settings.ledger_address), name)
    return len(budget.dataset.history())


def test_a_fit_is_charged_stored_and_certified(house: House) -> None:
    before = charges(house)
    job = house.done(purpose="triage")
    assert job["state"] == "released", job
    assert charges(house) == before + 1
    release = house.call("ada", "GET", f"/releases/{job['id']}")
    guarantee = Guarantee.from_dict(release["guarantee"])
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-5)
    files = {
        name: house.call("ada", "GET", f"/releases/{job['id']}/files/{name}")
        for name in release["files"]
    }
    assert set(files) == {"model.sfumato", "guarantee.json", "certificate.json"}
    place = house.settings.releases / job["id"]
    certificate = verified((place / "certificate.json").read_bytes(), file=place / "model.sfumato")
    assert certificate["purpose"] == "triage"
    assert certificate["by"] == "ada"


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "fabricate", "estimator": "Fabricator", "rows": 50},
        {"kind": "density", "estimator": "PrivateDensity", "columns": ["age"]},
        {"kind": "moments", "estimator": "PrivateMoments"},
    ],
    ids=lambda asked: asked["kind"],
)
def test_other_kinds(house: House, asked: dict[str, object]) -> None:
    job = house.done(**asked)
    assert job["state"] == "released", job
    files = house.call("ada", "GET", f"/releases/{job['id']}")["files"]
    expected = {"fabricate": "table.csv", "density": "grid.csv", "moments": "model.sfumato"}
    assert expected[str(asked["kind"])] in files
    if asked["kind"] == "density":
        path = f"/releases/{job['id']}/ask"
        first = house.call("bob", "POST", path, {"points": [[40.0], [70.0]]})
        assert first == house.call("ada", "POST", path, {"points": [[40.0], [70.0]]})
        for points in ([[40.0, 1.0]], [[], [40.0]], [[]]):
            house.call("ada", "POST", path, {"points": points}, status=422)
    if asked["kind"] == "fabricate":
        rows = house.call("ada", "GET", f"/releases/{job['id']}/files/table.csv").decode()
        assert len(rows.strip().splitlines()) == 51


def test_what_needs_approval_waits_and_is_declined_for_free(house: House) -> None:
    before = charges(house)
    job = house.submit(epsilon=3.5)
    assert job["state"] == "waiting"
    house.call("ada", "POST", f"/jobs/{job['id']}/approve", {}, status=403)
    house.call("olga", "POST", f"/jobs/{job['id']}/decline", {"reason": "too much"})
    house.work()
    found = house.call("ada", "GET", f"/jobs/{job['id']}")
    assert (found["state"], found["reason"]) == ("declined", "too much")
    house.call("olga", "POST", f"/jobs/{job['id']}/approve", {}, status=422)
    assert charges(house) == before
    job = house.submit(epsilon=3.5)
    house.call("olga", "POST", f"/jobs/{job['id']}/approve", {})
    house.work()
    assert house.call("ada", "GET", f"/jobs/{job['id']}")["state"] == "released"


def test_what_is_wrong_is_told_before_a_row_is_read(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "make_release", lambda *_: os._exit(9))
    before = charges(house)
    job = house.done(parameters={"gaussians_per_class": -3})
    assert job["state"] == "failed"
    assert "gaussians_per_class" in job["reason"]
    assert charges(house) == before


@pytest.mark.parametrize(
    "asked",
    [
        {"estimator": "os.system"},
        {"estimator": "PrivateTransferClassifier"},
        {"parameters": {"ledger": None}},
        {"parameters": {"bounds": {}}},
        {"parameters": {"epsilon": 9}},
        {"parameters": {"n_jobs": 64}},
        {"parameters": {"gaussians_per_class": "x" * 1000}},
        {"parameters": {"gaussians_per_class": [[[[[[1]]]]]]}},
        {"parameters": {"__class__": 1}},
        {"kind": "density", "estimator": "Fabricator"},
        {"kind": "search", "estimator": "PrivateLinearClassifier"},
        {
            "kind": "search",
            "estimator": "PrivateLinearClassifier",
            "grid": {"n_steps": [*range(20)], "learning_rate": [*range(20)]},
        },
        {"columns": ["age"]},
        {"epsilon": 1e400},
        {"epsilon": -1},
        {"purpose": "a\nb"},
        {"purpose": ""},
    ],
    ids=str,
)
def test_a_malicious_request_is_refused(house: House, asked: dict[str, object]) -> None:
    asked = {key: 1e308 * 10 if value == 1e400 else value for key, value in asked.items()}
    if asked.get("epsilon") == float("inf"):
        with pytest.raises(ValueError, match="JSON"):
            house.submit(**asked)
        return
    house.submit(status=422, **asked)


def test_a_budget_that_is_spent_in_the_meantime_refuses_in_the_worker(tmp_path: Path) -> None:
    house = House(tmp_path, workers=1)
    house.open(epsilon=1.0)
    first, second = (house.submit(epsilon=0.7) for _ in range(2))
    house.work()
    states = [house.call("ada", "GET", f"/jobs/{job['id']}")["state"] for job in (first, second)]
    assert states == ["released", "refused"]
    house.close()


def test_killed_between_charge_and_release_the_job_is_named(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(tasks, "_certificate", killed)  # the model is drawn by then
    before = charges(house)
    job = house.done()
    assert job["state"] == "lost"
    assert "the charge stands" in job["reason"]
    assert charges(house) == before + 1
    house.call("ada", "GET", f"/releases/{job['id']}", status=404)


@pytest.mark.parametrize("moment", ["before the charge", "after the charge", "before the row"])
def test_a_crash_of_everything_is_settled_at_the_next_start(
    house: House, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker process dies with its child; nobody has written the job's state."""
    places = {
        "before the charge": (workers._NotedPayer, "charge"),
        "after the charge": (tasks, "_certificate"),
        "before the row": (workers.Store, "move_job"),
    }
    job = house.submit()
    with monkeypatch.context() as patch:
        patch.setattr(*places[moment], lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        claimed = house.workers.store.claim_job()
        assert claimed is not None
        os.waitpid(house.workers._forked(claimed), 0)
    assert house.call("ada", "GET", f"/jobs/{job['id']}")["state"] == "running"
    before = charges(house)
    for left in house.workers.store.jobs(state="running"):
        workers.settle(house.settings, house.workers.store, left, again=True)
    expected = {
        "before the charge": "queued",
        "after the charge": "lost",
        "before the row": "released",
    }
    assert house.call("ada", "GET", f"/jobs/{job['id']}")["state"] == expected[moment]
    house.work()
    assert charges(house) == before + (moment == "before the charge")


def test_a_running_job_is_ended_on_request(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "rehearsed", lambda *_: time.sleep(600))
    job = house.submit()
    house.workers.step()
    house.call("ada", "POST", f"/jobs/{job['id']}/cancel")
    house.work()
    assert house.call("ada", "GET", f"/jobs/{job['id']}")["state"] == "cancelled"


def test_an_error_on_rows_tells_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(*_: object) -> None:
        raise ValueError("cell 'Ada Lovelace' of row 7")

    monkeypatch.setattr(tasks, "make_release", leaking)
    job = house.done()
    assert job["state"] == "failed"
    assert job["reason"] == workers.ENDED_EARLY
    stored = json.dumps([house.office.store.audit(), house.office.store.job(job["id"])])
    assert "Lovelace" not in stored


def test_results_are_shown_at_fixed_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, show_every=10**7)
    house.open()
    job = house.done()
    assert job["state"] == "running"
    assert "shown" not in job
    house.call("ada", "GET", f"/releases/{job['id']}", status=404)
    monkeypatch.setattr("sfumato.service.store.now", lambda: "9999")
    monkeypatch.setattr("sfumato.service.office.now", lambda: "9999")
    assert house.call("ada", "GET", f"/jobs/{job['id']}")["state"] == "released"
    house.call("ada", "GET", f"/releases/{job['id']}")
    house.close()


def test_data_sets_that_share_people_share_a_budget(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.open(epsilon=2.0)
    house.open("follow-up", budget="patients", epsilon=2.0)
    assert house.done(epsilon=1.2)["state"] == "released"
    house.submit(name="follow-up", epsilon=1.2, status=409)
    shown = house.call("olga", "GET", "/budgets")
    assert list(shown) == ["patients"]
    house.close()


def test_a_retired_data_set_has_no_rows_and_keeps_its_ledger(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.open()
    job = house.done()
    waiting = house.submit(epsilon=3.5)
    house.call("olga", "POST", "/datasets/patients/retire")
    house.work()
    assert not (house.settings.data / TABLE).exists()
    assert house.call("ada", "GET", f"/jobs/{waiting['id']}")["state"] == "cancelled"
    house.submit(status=422)
    house.call("olga", "POST", "/datasets/patients/retire", status=422)
    assert house.call("ada", "GET", f"/releases/{job['id']}")["id"] == job["id"]
    assert house.call("uwe", "GET", "/audit/verify")["charges"] == charges_lines(house)
    house.close()


def charges_lines(house: House) -> int:
    return len(Ledger(house.settings.ledger_address).dataset("patients").lines())


def test_bounds_are_confirmed_column_by_column(tmp_path: Path) -> None:
    house = House(tmp_path)
    body = {"name": "new", "path": TABLE, "target": "ill", "epsilon": 1, "why": "w"}
    house.call("olga", "POST", "/datasets", body | {"protected": "p"}, status=201)
    house.call("ada", "GET", "/datasets/new", status=404)
    house.work()
    hidden = house.call("uwe", "GET", "/datasets/new")
    assert hidden["bounds"] is None
    assert "path" not in hidden
    refused = house.call("olga", "POST", "/datasets/new/open", {}, status=422)
    assert "age" in refused["message"]
    wrong = {"type": "int64", "lower": 9, "upper": 1}
    house.call("olga", "PUT", "/datasets/new/columns/age", wrong, status=422)
    told = house.call("olga", "PUT", "/datasets/new/columns/age", {"lower": 0}, status=422)
    assert "'type'" in told["message"]
    house.call("olga", "PUT", "/datasets/new/columns/nobody", {}, status=404)
    for column in ("age", "bmi", "town", "ill"):
        facts = {"type": "double", "left_out": True} if column == "bmi" else {}
        house.call("olga", "PUT", f"/datasets/new/columns/{column}", facts)
    refused = house.call("olga", "POST", "/datasets/new/open", {}, status=422)
    assert "how the file is written" in refused["message"]
    house.call("olga", "PUT", "/datasets/new/format", {})
    house.call("olga", "POST", "/datasets/new/open", {"one_row_per_person": True})
    house.call("olga", "PUT", "/datasets/new/columns/age", {"lower": 9}, status=422)
    house.close()


def test_a_table_that_cannot_be_read_is_told_without_its_content(tmp_path: Path) -> None:
    house = House(tmp_path)
    (house.settings.data / "bad.parquet").write_bytes(b"secret" * 100)
    body = {"name": "bad", "path": "bad.parquet", "epsilon": 1, "why": "w", "protected": "p"}
    house.call("olga", "POST", "/datasets", body, status=201)
    house.work()
    found = house.call("olga", "GET", "/datasets/bad")
    assert found["state"] == "unreadable"
    assert "secret" not in json.dumps(found)
    house.close()


@pytest.mark.parametrize(
    "path", ["../outside.csv", "/etc/passwd", ".", "", "a/../../outside.csv", "link.csv", "\x00"]
)
def test_nothing_outside_of_the_data_folder_is_a_table(tmp_path: Path, path: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "outside.csv").write_text("a\n1\n")
    (data / "link.csv").symlink_to(tmp_path / "outside.csv")
    with pytest.raises(InvalidInputError, match="data folder"):
        Settings(tmp_path / "state", data).table(path)
