"""What an analyst who means harm would try, and what a messy table does by itself."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from sfumato import Ledger
from sfumato.exceptions import BudgetExceededError
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.service import api
from sfumato.service.access import Person
from sfumato.service.bodies import NewJob
from sfumato.service.office import ServiceApi
from tests.service.house import API, House
from tests.service.test_studio import Browser

SCRIPT = "<script>alert(1)</script>"
NAMES = ['<img src=x onerror="alert(1)">', "BP sys/dia", "a\"b'c", "läng e%20&?#", "ill?"]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


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
    messy_table(Path(house.settings.data) / "messy.csv")
    body = {"name": "messy", "path": "messy.csv", "target": "ill?", "protected": SCRIPT}
    body |= {"why": SCRIPT, "epsilon": 30.0, "delta": 1e-5, "auto_approve": 10.0}
    house.call("olga", "POST", "/datasets", body, status=201)
    house.work()
    facts: list[dict[str, Any]] = [
        {"type": "double", "lower": 0, "upper": 100},
        {"type": "int64", "lower": 50, "upper": 250},
        {"type": "string", "categories": [SCRIPT, "</svg>"]},
        {"type": "int64", "lower": 0, "upper": 9},
        {"type": "string", "labels": ["no", "yes"]},
    ]
    for name, told in zip(NAMES, facts, strict=True):
        path = f"/datasets/messy/columns/{quote(name, safe='')}"
        house.call("olga", "PUT", path, told)
    house.call("olga", "PUT", "/datasets/messy/format", {"delimiter": ";", "decimal": ","})
    house.call("olga", "POST", "/datasets/messy/open", {"one_row_per_person": True})
    house.call("olga", "PUT", "/datasets/messy/quotas/ada", {"epsilon": 30.0})


def test_names_cells_and_purposes_are_text_on_every_page(house: House) -> None:
    open_messy(house)
    jobs = [
        house.done("ada", "messy", kind="explanation", estimator=None, purpose=SCRIPT, epsilon=3),
        house.done(
            *("ada", "messy"), kind="density", columns=NAMES[:2], estimator=None, purpose=SCRIPT
        ),
    ]
    assert [job["state"] for job in jobs] == ["released"] * 2, jobs
    waiting = house.submit("ada", "messy", epsilon=11.0, purpose=SCRIPT)
    ada, olga, uwe = (Browser(house, name) for name in ("ada", "olga", "uwe"))
    pages = [ada.get("/"), ada.get("/datasets/messy"), ada.get("/datasets/messy/ask")]
    pages += [ada.get(f"/releases/{job['id']}") for job in jobs]
    pages += [olga.get("/inbox"), olga.get(f"/jobs/{waiting['id']}"), olga.get("/jobs")]
    pages += [olga.get("/datasets/messy"), uwe.get("/audit"), uwe.get("/datasets/messy")]
    for text in pages:
        assert SCRIPT not in text
        assert "<img src=x" not in text
        assert text.count("<svg") == text.count("</svg>"), "a cell ends no picture"
    assert any("&lt;script&gt;" in text for text in pages)


def test_a_confirmation_page_shows_markup_as_text(fresh: House) -> None:
    messy_table(Path(fresh.settings.data) / "messy.csv")
    body = {"name": "messy", "path": "messy.csv", "protected": "x", "why": "y", "epsilon": 1.0}
    fresh.call("olga", "POST", "/datasets", body, status=201)
    fresh.work()
    text = Browser(fresh, "olga").get("/datasets/messy/confirm")
    assert SCRIPT not in text
    assert "<img src=x" not in text


def test_a_key_that_is_replayed_is_one_job_per_person_and_data_set(fresh: House) -> None:
    fresh.open(epsilon=5.0)
    first = fresh.submit("ada", key="same", epsilon=0.3)
    other = fresh.submit("bob", key="same", epsilon=0.3)
    assert first["id"] != other["id"], "nobody gets the job of another by her key"
    told = fresh.submit("ada", key="same", epsilon=2.0, status=422)
    assert "another request" in told["message"]
    fresh.work()
    assert len(fresh.call("olga", "GET", "/datasets/patients/charges")) == 2
    fresh.call("olga", "PUT", "/datasets/patients/quotas/ada", {"epsilon": 0.1})
    fresh.submit("ada", key="new", epsilon=0.3, status=409)
    again = fresh.submit("ada", key="same", epsilon=0.3)
    assert (again["id"], again["state"]) == (first["id"], "released")


def test_a_quota_is_no_race(fresh: House) -> None:
    """Charges of one analyst from many threads at once: the quota holds."""
    fresh.open(epsilon=5.0)
    fresh.call("olga", "PUT", "/datasets/patients/quotas/ada", {"epsilon": 0.5})
    offices = [ServiceApi(fresh.settings) for _ in range(4)]
    ready = threading.Barrier(4)

    def submit(number: int) -> None:
        ready.wait(900)
        who = Person("ada", "analyst", "all", "test")
        asked = NewJob(kind="moments", epsilon=0.3, purpose="a race")
        with contextlib.suppress(BudgetExceededError):
            api.submit(who, None, "patients", asked, offices[number % 4])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit, range(4)))
    fresh.work()
    quota = SharedBudget(Ledger(fresh.settings.ledger_address), "patients").holdings()
    ada = next(one for one in quota if one.holder == "ada")
    assert ada.spent <= 0.5
    states = [one["state"] for one in fresh.call("ada", "GET", "/jobs")]
    assert states.count("released") == 2, "0.3 twice is 0.43 as Gaussian releases, thrice is more"
    for office in offices:
        office.store.close()


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
    page = Browser(house, "ada")._send("GET", f"/releases/{function}/files/{file}")
    assert page.status_code == 404


@pytest.mark.parametrize("content", ["text/plain", "application/x-www-form-urlencoded"])
def test_another_site_cannot_use_the_api_of_a_visitor(house: House, content: str) -> None:
    """A cookie opens no route of the API, and a form of another site carries no token."""
    browser = Browser(house, "olga")
    cookie = "; ".join(f"{key}={value}" for key, value in browser.cookies.items())
    headers = {"Cookie": cookie, "Content-Type": content, "Origin": "https://evil.example"}
    body = json.dumps({"name": "eve", "role": "officer"})
    answer = house.request("POST", "/api/v1/people", content=body, headers=headers)
    assert answer.status_code == 401
    form = house.request("POST", "/people", content="name=eve&role=officer", headers=headers)
    assert form.status_code in (403, 422)
    assert "eve" not in [one["name"] for one in house.office.store.people()]


def test_a_budget_without_a_total_is_refused(house: House) -> None:
    body = {"name": "none", "path": "none.csv", "protected": "x", "why": "y"}
    told = house.call("olga", "POST", "/datasets", body, status=422)
    assert "'epsilon'" in told["message"]


def test_a_quota_that_has_ended_is_told_at_once_and_holds_in_the_worker(fresh: House) -> None:
    fresh.open()
    waiting = fresh.submit()
    quota = "/datasets/patients/quotas/ada"
    fresh.call("olga", "PUT", quota, {"epsilon": 2.0, "until": "2020-01-01"})
    assert "ended on 2020-01-01" in str(fresh.submit(status=409))
    planned = fresh.call("ada", "GET", "/datasets/patients/plan?epsilon=0.1")
    assert not planned["fits"]
    fresh.work()  # what was queued before meets the date in the charge itself
    found = fresh.call("ada", "GET", f"/jobs/{waiting['id']}")
    assert (found["state"], charges_of(fresh)) == ("refused", 0)
    fresh.call("olga", "PUT", quota, {"epsilon": 2.0})
    assert fresh.done()["state"] == "released"


def test_a_clock_that_is_put_back_gives_nothing_back(
    fresh: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums are of lines, not of times; what was shown stays shown by the time of its release."""
    fresh.open()
    assert fresh.done(epsilon=2.0)["state"] == "released"
    spent = fresh.call("ada", "GET", "/budgets")["patients"]

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(days=400)

    for module in ("sfumato.ledger.chain", "sfumato.ledger.shared_budget"):
        monkeypatch.setattr(f"{module}.datetime", Earlier)
    assert fresh.call("ada", "GET", "/budgets")["patients"] == spent
    fresh.submit(epsilon=3.9, status=409)
    fresh.call("uwe", "GET", "/audit/verify")


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
    return len(house.call("olga", "GET", "/datasets/patients/charges"))


def test_a_ledger_that_is_put_back_while_it_is_used_is_refused(fresh: House) -> None:
    """Whoever has read a longer chain refuses the shorter one; so does the audit."""
    fresh.open()
    assert fresh.done(epsilon=0.3)["state"] == "released"
    place = Path(fresh.settings.ledger_address)
    copy = place.read_bytes()
    assert fresh.done(epsilon=0.3)["state"] == "released"
    fresh.call("ada", "GET", "/budgets")
    place.write_bytes(copy)
    told = fresh.request(
        "POST",
        f"{API}/datasets/patients/jobs",
        json={"epsilon": 0.3, "purpose": "a test", "kind": "moments"},
        headers={"Authorization": f"Bearer {fresh.tokens['ada']}"},
    )
    assert told.status_code == 500
    assert "ledger" in told.json()["error"]
    told = fresh.request(
        "GET", f"{API}/audit/verify", headers={"Authorization": f"Bearer {fresh.tokens['uwe']}"}
    )
    assert told.status_code == 500
