"""Many at once, on SQLite and on PostgreSQL; the whole command, killed and started again."""

from __future__ import annotations

import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sfumato import Ledger
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.service.office import Office
from sfumato.service.store import LOCK
from tests.ledger.test_ledger_postgresql import run_sql, server  # noqa: F401 - a fixture
from tests.service.house import House

pytestmark = pytest.mark.servers
ANALYSTS = 20


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    address: str = request.getfixturevalue("server")
    run_sql(address, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return address


def test_two_hundred_submits_of_twenty_analysts(tmp_path: Path, database: str | None) -> None:
    house = House(tmp_path, **({} if database is None else {"database": database}))
    people = [f"analyst{place}" for place in range(ANALYSTS)]
    house.people |= dict.fromkeys(people, "analyst")
    # A pure release of .2 costs .93 of a budget that is counted as Gaussian: one fits each quota,
    # and 14 of 20 fit the total.
    house.open(epsilon=4.0, auto_approve=1.0, quotas=dict.fromkeys(people, 1.2))
    shared = SharedBudget(Ledger(house.settings.ledger_address), "patients")
    offices = [Office(house.settings) for _ in range(4)]
    task = {"kind": "statistic", "estimator": "release_counts", "columns": [], "by": []}
    task["parameters"] = {}  # type: ignore[assignment]

    def submit(number: int) -> str:
        words: Any = {"epsilon": 0.2, "delta": 1e-5, "digest": "same", "key": f"{number % 40}"}
        name = people[number % ANALYSTS]
        return str(offices[number % 4].queue(name, "patients", task, "a test", **words)["id"])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(submit, range(200)))
    accepted = set(found)
    assert len(accepted) == 40, "a key is one job"
    house.work(900)
    states = {one: house.office.store.get("job", one)["state"] for one in accepted}
    assert set(states.values()) <= {"released", "refused"}
    released = {one for one, state in states.items() if state == "released"}
    assert {one["id"] for one in house.office.store.find("release")} == released
    references = [line.note.reference for line in shared.dataset.lines()]
    assert sorted(references) == sorted(released), "charged once, and released once"
    total, *quotas = shared.holdings()
    assert total.filter.admits(total.cost)
    assert all(one.filter.admits(one.cost) for one in quotas)
    assert 10 <= len(released) < ANALYSTS
    shared.verify()
    house.office.store.verify_audit()
    for office in offices:
        office.store.close()
    house.close()


def test_a_cancel_does_not_undo_what_a_worker_stores(tmp_path: Path, server: str) -> None:  # noqa: F811
    """The worker has its turn while the cancel comes: the job is released, or cancelled first."""
    run_sql(server, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    house = House(tmp_path, database=server)
    house.open()
    job = house.submit()
    claimed = house.workers.store.claim()
    assert claimed is not None
    with psycopg.connect(server) as worker, ThreadPoolExecutor(1) as pool:
        worker.execute(LOCK)
        done = "UPDATE service_records SET state = 'released' WHERE id = %s"
        worker.execute(done, (job["id"],))
        told = pool.submit(house.call, "ada", "POST", f"/jobs/{job['id']}/cancel", status=422)
        with psycopg.connect(server, autocommit=True) as other:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while other.execute(waits).fetchone() == (0,):
                time.sleep(0.01)
        worker.commit()
        told.result()
    assert house.office.store.get("job", job["id"])["state"] == "released"
    house.close()


def test_a_dump_of_postgresql_is_restored_with_everything(tmp_path: Path, server: str) -> None:  # noqa: F811
    """The page on operations: one `pg_dump` holds store and ledger."""
    dump, psql = shutil.which("pg_dump"), shutil.which("psql")
    if dump is None or psql is None:
        pytest.skip("needs pg_dump and psql")
    run_sql(server, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    house = House(tmp_path, database=server)
    house.open()
    job = house.done(kind="density", columns=["age"], estimator=None, epsilon=0.5)
    told = house.call("ada", "GET", f"/releases/{job['id']}")["charts"]
    heads = house.call("uwe", "GET", "/audit/statement")["heads"]
    house.close()
    copy = subprocess.run([dump, server], check=True, capture_output=True).stdout
    run_sql(server, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    subprocess.run([psql, "-q", server], input=copy, check=True, capture_output=True)
    declared = house.datasets  # 'service.toml' is a file of the operator, and not in the dump
    house = House(tmp_path, database=server)
    house.datasets = declared
    house.declare()
    Ledger(server).verify(heads)
    house.call("uwe", "GET", "/audit")
    assert house.call("ada", "GET", f"/releases/{job['id']}")["charts"] == told
    assert house.done()["state"] == "released"
    house.close()
