"""What an analyst who means harm would try, and what a messy table does on its own."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import Ledger
from sfumato.exceptions import LedgerTamperedError
from sfumato.service import workers
from sfumato.service.access import make_token
from tests.service.house import API, TABLE, Browser, House

SCRIPT = "<script>alert(1)</script>"
NAMES = ['<img src=x onerror="alert(1)">', "BP sys/dia", "a\"b'c", "läng e%20&?#", "ill?"]


@pytest.fixture(scope="module")
def function(house: House) -> str:
    """A release that has a file which nobody may fetch."""
    job = house.done(kind="density", columns=["age"], estimator=None)
    assert job["state"] == "released"
    return str(job["id"])


def messy_table(path: Path) -> None:
    """Write columns whose names are markup, addresses and quotes, and cells that are scripts."""
    rng = np.random.default_rng(0)
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    lines = [";".join(quoted)]
    for row in range(200):
        cells = [f"{rng.normal(50, 9):.1f}".replace(".", ","), str(rng.integers(80, 200))]
        cells += [SCRIPT if row % 2 else "</svg>", f"{rng.integers(0, 9)}"]
        lines.append(";".join([*cells, "yes" if row % 3 else "no"]))
    path.write_text("\n".join(lines) + "\n")


def open_messy(house: House) -> None:
    messy_table(house.folder / "messy.csv")
    about = {"path": "messy.csv", "target": "ill?", "protected": SCRIPT, "why": SCRIPT}
    about |= {"epsilon": 30.0, "delta": 1e-5, "auto_approve": 10.0, "quotas": {"ada": 30.0}}
    house.datasets["messy"] = about
    house.declare()
    house.work()
    page = Browser(house, house.tokens["olga"]).get("/datasets/messy/confirm")
    assert SCRIPT not in page
    assert "<img src=x" not in page
    facts: list[dict[str, Any]] = [
        {"type": "double", "lower": 0, "upper": 100},
        {"type": "int64", "lower": 50, "upper": 250},
        {"type": "string", "categories": [SCRIPT, "</svg>"]},
        {"type": "int64", "lower": 0, "upper": 9},
    ]
    body: dict[str, Any] = {"columns": dict(zip(NAMES, facts, strict=False))}
    body |= {"target": {"type": "string", "labels": ["no", "yes"]}, "one_row_per_person": True}
    body["file"] = {"delimiter": ";", "decimal": ","}
    house.call("olga", "POST", "/datasets/messy/open", body)


def test_names_cells_and_purposes_are_text_on_every_page(house: House) -> None:
    open_messy(house)
    asked: list[dict[str, Any]] = [{"kind": "fit"}, {"kind": "fabricate", "rows": 9}]
    asked.append({"kind": "density", "columns": NAMES[:1]})
    words: Any = {"estimator": None, "purpose": SCRIPT, "epsilon": 3.0}
    jobs = [house.done("ada", "messy", **words, **one) for one in asked]
    assert [job["state"] for job in jobs] == ["released"] * 3, jobs
    waiting = house.done("ada", "messy", epsilon=11.0, purpose=SCRIPT)
    ada, olga, uwe = (Browser(house, house.tokens[name]) for name in ("ada", "olga", "uwe"))
    pages = [ada.get("/"), ada.get("/datasets/messy"), ada.get("/datasets/messy/ask")]
    pages += [ada.get(f"/releases/{job['id']}") for job in jobs]
    pages.append(ada.get(f"/compare?release={jobs[0]['id']}&release={jobs[1]['id']}"))
    pages += [olga.get(f"/jobs/{waiting['id']}"), olga.get("/jobs"), olga.get("/datasets/messy")]
    pages += [uwe.get(f"/datasets/messy/{one}") for one in ("dpia", "report")]
    pages += [uwe.get("/audit"), uwe.get("/datasets/messy")]
    for text in pages:
        assert SCRIPT not in text
        assert "<img src=x" not in text
    assert any("&lt;script&gt;" in text for text in pages)


def test_a_key_that_is_replayed_is_one_job_per_person_and_data_set(fresh: House) -> None:
    fresh.open(epsilon=5.0)
    first = fresh.submit("ada", key="same", epsilon=0.3)
    other = fresh.submit("bob", key="same", epsilon=0.3)
    assert first["id"] != other["id"], "no person gets the job of another by their key"
    told = fresh.submit("ada", key="same", epsilon=2.0, status=422)
    assert "another request" in told["message"]
    fresh.work()
    assert charges_of(fresh) == 2
    fresh.datasets["patients"]["quotas"] = {"ada": 0.1}
    fresh.declare()
    assert fresh.done("ada", key="new", epsilon=0.3)["state"] == "refused"
    again = fresh.submit("ada", key="same", epsilon=0.3)
    assert (again["id"], again["state"]) == (first["id"], "released")


@pytest.mark.parametrize(
    "file",
    [
        "../../ledger.db",
        "..%2F..%2Fledger.db",
        "%2e%2e/%2e%2e/service.db",
        "....//secret.key",
        "/etc/passwd",
        "model.sfumato%00.json",
        "release.json",
    ],
)
def test_files_of_a_release_are_those_that_are_listed(
    house: House, function: str, file: str
) -> None:
    headers = {"Authorization": f"Bearer {house.tokens['ada']}"}
    answer = house.request("GET", f"/api/v1/releases/{function}/files/{file}", headers=headers)
    assert answer.status_code == 404
    page = Browser(house, house.tokens["ada"]).send("GET", f"/releases/{function}/files/{file}")
    assert page.status_code == 404


def test_a_cancelled_job_is_charged_or_not_and_says_which(fresh: House) -> None:
    """Cancelled before, during and after: charges are those of released and lost jobs."""
    fresh.open()
    jobs = [fresh.submit(epsilon=0.2, key=str(place)) for place in range(4)]
    fresh.call("ada", "POST", f"/jobs/{jobs[0]['id']}/cancel")
    fresh.workers.step()  # two of them are running now
    for job in jobs[1:3]:
        fresh.call("ada", "POST", f"/jobs/{job['id']}/cancel")
    fresh.work()
    states = [fresh.call("ada", "GET", f"/jobs/{job['id']}")["state"] for job in jobs]
    assert states[0] == "cancelled"
    assert states[3] == "released"
    assert set(states[1:3]) <= {"cancelled", "lost", "released"}
    assert charges_of(fresh) == sum(state in ("lost", "released") for state in states)
    fresh.call("ada", "POST", f"/jobs/{jobs[0]['id']}/cancel", status=422)
    assert fresh.submit(epsilon=0.2, key="0")["id"] == jobs[0]["id"], "its key is used up"


def charges_of(house: House) -> int:
    return len(house.call("olga", "GET", "/audit")["charges"]["patients"])


def test_one_decision_wins_and_what_is_charged_is_released(fresh: House) -> None:
    """Two officers and the analyst approve, decline and cancel at the same moment."""
    fresh.people["otto"] = "officer"
    fresh.open(auto_approve=0.0)
    fresh.tokens["otto"] = make_token(fresh.settings, fresh.office.store, "otto", "write", 1)
    jobs = [fresh.done(epsilon=0.2, key=str(place)) for place in range(3)]
    assert {job["state"] for job in jobs} == {"waiting"}
    for job in jobs:
        place = f"{API}/jobs/{job['id']}/"
        acts: list[Any] = [("olga", "decide", {"approve": True}), ("ada", "cancel", None)]
        acts += [("otto", "decide", {"approve": False, "reason": "no"})]

        def act(one: Any, place: str = place) -> int:
            headers = {"Authorization": f"Bearer {fresh.tokens[one[0]]}"}
            return fresh.request("POST", place + one[1], json=one[2], headers=headers).status_code

        with ThreadPoolExecutor(3) as pool:
            statuses = dict(zip(["approve", "cancel", "decline"], pool.map(act, acts), strict=True))
        assert set(statuses.values()) <= {200, 422}
        assert not statuses["approve"] == statuses["decline"] == 200, "only one officer decides"
    fresh.work()
    states = [fresh.call("ada", "GET", f"/jobs/{job['id']}")["state"] for job in jobs]
    assert set(states) <= {"released", "declined", "cancelled", "lost"}
    assert charges_of(fresh) == sum(one in ("released", "lost") for one in states)


def test_nobody_reaches_what_is_of_another(fresh: House) -> None:
    """IDs of jobs and releases of a data set that bob may not see, at every verb that takes one."""
    fresh.open(quotas={"ada": 4.0})
    identity = fresh.done()["id"]
    waiting = fresh.done(epsilon=3.5)["id"]
    bob = Browser(fresh, fresh.tokens["bob"])
    fresh.submit("bob", status=404)
    held = fresh.call("ada", "GET", "/datasets/patients")["dataset"]
    assert [one["holder"] for one in held["holdings"]] == [None, "ada"]
    assert not {"notes", "reason", "fingerprint"} & held.keys()
    fresh.call("bob", "GET", f"/jobs/{identity}", status=404)
    fresh.call("bob", "GET", "/datasets/patients", status=404)
    for path in (f"releases/{identity}", f"releases/{identity}/files/model.sfumato"):
        bob.get(f"/{path}", 404)
        fresh.call("bob", "GET", f"/{path}", status=404)
    bob.get(f"/compare?release={identity}", 404)
    bob.get(f"/jobs/{waiting}", 404)
    assert bob.post(f"{API}/jobs/{waiting}/cancel", {}).status_code == 404
    assert bob.post(f"{API}/jobs/{waiting}/decide", {"approve": True}).status_code == 403
    bob.get("/datasets/patients/report", 403)
    assert fresh.call("bob", "GET", "/jobs") == {"jobs": [], "waiting": []}
    assert fresh.call("bob", "GET", "/releases?dataset=patients") == {"releases": []}
    assert fresh.call("ada", "GET", f"/jobs/{waiting}")["state"] == "waiting"


def test_the_inbox_has_the_oldest_request_too(fresh: House) -> None:
    """Reproduced: it filtered the newest thousand jobs."""
    fresh.open()
    waiting = fresh.done(epsilon=3.5)
    record = json.dumps({**waiting, "state": None})
    rows = [("job", f"n{n}", "patients", "ada", "failed", "9", record) for n in range(1001)]
    with closing(sqlite3.connect(fresh.settings.store_address)) as database, database:
        database.executemany(
            "INSERT INTO service_records (kind, id, dataset, person, state, created, record) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
    assert [one["id"] for one in fresh.call("olga", "GET", "/jobs")["waiting"]] == [waiting["id"]]


def test_text_that_cannot_be_shown_is_refused(fresh: House) -> None:
    """Found: a lone surrogate in a setting was stored, and every list of jobs was a fault since."""
    fresh.open()
    headers = {"Authorization": f"Bearer {fresh.tokens['ada']}", "Content-Type": "application/json"}
    words = '"estimator": "PrivateGaussianClassifier", "parameters": {"gaussians_per_class": %s}'
    for value in (r'"\ud800"', r'{"\ud800": 1}', r'["\udfff"]'):
        body = '{"epsilon": 0.1, "purpose": "abc", ' + words % value + "}"
        path = f"{API}/datasets/patients/jobs"
        assert fresh.request("POST", path, content=body, headers=headers).status_code == 422
    assert fresh.call("olga", "GET", "/jobs")["jobs"] == []


def test_a_job_that_runs_is_not_approved_a_second_time(fresh: House) -> None:
    """Found: it was queued again while it ran, charged twice, and its first result lost."""
    fresh.open()
    job = fresh.submit(epsilon=0.2)
    claimed = fresh.workers.store.claim()
    assert claimed is not None
    fresh.call("olga", "POST", f"/jobs/{job['id']}/decide", {"approve": True}, status=422)
    workers.run_job(fresh.workers.office, claimed)
    fresh.work()
    assert fresh.call("ada", "GET", f"/jobs/{job['id']}")["state"] == "released"
    assert charges_of(fresh) == 1


def test_a_ledger_that_is_put_back_meanwhile_is_not_charged(fresh: House) -> None:
    """Found: the child of a job knew nothing of the longer chain, and one release came of it."""
    fresh.open()
    path = fresh.settings.ledger_address
    with closing(sqlite3.connect(path)) as ledger, closing(sqlite3.connect(":memory:")) as older:
        ledger.backup(older)
        assert fresh.done(epsilon=0.3)["state"] == "released"
        older.backup(ledger)
    job = fresh.submit(epsilon=0.3)
    with pytest.raises(LedgerTamperedError):
        fresh.work()
    assert fresh.office.store.get("job", job["id"])["state"] != "released"
    assert not Ledger(fresh.settings.ledger_address).dataset("patients").lines()


def test_of_two_copies_that_are_declared_at_once_one_is_refused(fresh: House) -> None:
    """Found: each was compared before the other was known."""
    (fresh.folder / "copy.csv").write_bytes((fresh.folder / TABLE).read_bytes())
    fresh.datasets = {"one": {"path": TABLE}, "two": {"path": "copy.csv"}}
    fresh.declare()
    fresh.work()
    found = [fresh.call("olga", "GET", f"/datasets/{name}")["dataset"] for name in fresh.datasets]
    assert sorted(one["state"] for one in found) == ["proposed", "unreadable"]


def test_a_full_disk_costs_nothing(fresh: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: what could not be written was charged and lost."""
    fresh.open()
    monkeypatch.setattr("sfumato.service.config.MIN_SPACE", 1e30)
    job = fresh.done()
    assert (job["state"], "disk" in job["reason"]) == ("failed", True)
    assert charges_of(fresh) == 0


def test_a_replayed_cookie_does_what_its_token_may_now(fresh: House) -> None:
    """A cookie is kept elsewhere: it ends with its token, fixes nobody else's session, and is
    of one service only."""
    ada = Browser(fresh, fresh.tokens["ada"])
    kept = dict(ada.cookies)
    assert ada.post("/sign-out", {}).status_code == 303
    ada.get("/", status=303)
    Browser(fresh, fresh.tokens["ada"]).get("/")  # reproduced: who signed out was locked out
    planted = Browser(fresh, fresh.tokens["uwe"])
    planted.cookies = dict(kept)  # another's cookie was there before the sign-in
    planted.post("/sign-in", {"token": fresh.tokens["uwe"]})
    assert "uwe, auditor" in planted.get("/audit")
    token = fresh.tokens["ada"].split("_")[1]
    fresh.office.store.change("operator", "token", token, "revoke", state="revoked")
    ada.cookies = kept
    ada.get("/", status=303)
    other = House(fresh.folder / "other")
    planted.house = other
    planted.get("/", status=303)
    other.close()


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"by": ["town"] * 9}, "invalid"),
    ({"by": ["a"]}, "not in the bounds"),
    ({"by": ["age", "bmi", "town"], "parameters": {"bins": 10**5}}, "groups"),
    ({"by": ["age"], "parameters": {"bins": 10**9}}, "invalid"),
    ({"by": ["age"], "parameters": {"bins": [5, 1]}}, "increasing"),
    ({"by": ["age"], "parameters": {"bins": {"a": 1}}}, "real number"),
    ({"columns": ["age"], "estimator": "release_mean", "parameters": {"confidence": 1}}, "between"),
    ({"columns": ["age"], "estimator": "release_mean", "parameters": {"bounds": {}}}, "invalid"),
    ({"columns": ["age"], "estimator": "release_mean", "parameters": {"groups": [1]}}, "invalid"),
    ({"columns": ["age"], "estimator": "release_quantiles", "parameters": {"at": [2]}}, "between"),
    ({"columns": ["age"] * 2, "estimator": "release_correlation"}, "different"),
]


@pytest.mark.parametrize(("asked", "said"), HOSTILE, ids=str)
def test_a_hostile_statistic_fails_on_dummy_rows_and_costs_nothing(
    house: House, asked: dict[str, Any], said: str
) -> None:
    before, words = house.spent(), {"kind": "statistic", "estimator": "release_counts", **asked}
    if said == "invalid":
        assert house.submit(status=422, **words)["error"] == "invalid request"
    else:
        job = house.done(**words)
        assert (job["state"], said in job["reason"]) == ("failed", True), job["reason"]
    assert house.spent() == before
