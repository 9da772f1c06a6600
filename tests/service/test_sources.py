"""Rows in files, folders and databases; persons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from tests.ledger.test_ledger_postgresql import run_sql, server  # noqa: F401 - a fixture
from tests.service.house import TABLE, House, write_table

FACTS: dict[str, dict[str, Any]] = {
    "age": {"type": "int64", "lower": 0, "upper": 120},
    "bmi": {"type": "double", "lower": 10, "upper": 60, "missing": True},
    "town": {"type": "string", "categories": ["Ghent", "Ypres", "Mons"], "weights": [3, 1, 1]},
    "ill": {"type": "string", "labels": ["no", "yes"]},
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def opened(house: House, path: str, facts: dict[str, dict[str, Any]], **asked: Any) -> None:
    """Register a source, confirm what is told of it, and open it to Ada."""
    body = {"name": "patients", "path": path, "protected": "patients", "why": "a test"}
    body |= {"epsilon": 20.0, "delta": 1e-5, "auto_approve": 5.0}
    house.call("olga", "POST", "/datasets", body | asked, status=201)
    house.work()
    found = house.call("olga", "GET", "/datasets/patients")
    assert found["state"] == "proposed", found
    if "file" in found["bounds"]:
        house.call("olga", "PUT", "/datasets/patients/format", {"missing": ["n/a"]})
    for column, told in facts.items():
        house.call("olga", "PUT", f"/datasets/patients/columns/{column}", told)
    house.call(
        "olga", "POST", "/datasets/patients/open", {"one_row_per_person": "person" not in asked}
    )
    house.call("olga", "PUT", "/datasets/patients/quotas/ada", {"epsilon": 20.0})


def test_a_folder_is_one_table_and_is_deleted_as_one(house: House, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "visits"
    (folder / "more").mkdir(parents=True)
    whole = (tmp_path / "data" / TABLE).read_text().splitlines()
    for name, part in (("a.csv", whole[1:100]), ("more/b.csv", whole[100:])):
        (folder / name).write_text("\n".join([whole[0], *part]) + "\n")
    assert {"visits", "visits/a.csv"} <= set(house.call("olga", "GET", "/files"))
    opened(house, "visits/../visits", FACTS, target="ill")
    found = house.call("olga", "GET", "/datasets/patients")
    assert found["n_rows"] == 300
    assert found["path"] == "visits"
    assert found["bounds"]["columns"]["town"]["weights"] == [3, 1, 1]
    job = house.done(epsilon=3.0)
    assert job["state"] == "released", job
    house.call("olga", "POST", "/datasets/patients/retire")
    house.work()
    assert not folder.exists()
    assert (tmp_path / "data" / TABLE).exists()


def test_a_link_out_of_the_data_folder_is_no_table(house: House, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    folder = tmp_path / "data" / "links"
    folder.mkdir()
    (folder / "rows.csv").symlink_to(tmp_path / "secret.csv")
    (tmp_path / "data" / "out").symlink_to(tmp_path)
    body = {"name": "stolen", "protected": "nobody", "why": "a test", "epsilon": 1.0}
    for path in ("links/rows.csv", "out", "out/secret.csv"):
        house.call("olga", "POST", "/datasets", body | {"path": path}, status=422)
    house.call("olga", "POST", "/datasets", body | {"path": "links"}, status=201)
    house.work()
    assert house.call("olga", "GET", "/datasets/stolen")["state"] == "unreadable"


@pytest.mark.parametrize(
    "path",
    [
        "database:http://169.254.169.254/latest",
        "database:clinic/visits; DROP TABLE x",
        "database:../etc/passwd",
        "postgresql://ann@host/clinic",
        "http://127.0.0.1:1/rows.csv",
        "file:///etc/passwd",
    ],
)
def test_no_address_comes_over_http(house: House, path: str) -> None:
    body = {"name": "far", "protected": "nobody", "why": "a test", "epsilon": 1.0, "path": path}
    answer = house.request(
        "POST",
        "/api/v1/datasets",
        json=body,
        headers={"Authorization": f"Bearer {house.tokens['olga']}"},
    )
    if answer.status_code == 201:  # a name inside of the data folder, which is not there
        house.work()
        assert house.call("olga", "GET", "/datasets/far")["state"] == "unreadable"
    else:
        assert answer.status_code == 422


def test_a_table_inside_a_file_stays_when_it_is_retired(house: House, tmp_path: Path) -> None:
    place = tmp_path / "data" / "clinic.duckdb"
    with duckdb.connect(str(place)) as database:
        rows = tmp_path / "data" / TABLE
        database.execute(f"CREATE TABLE visits AS SELECT * FROM read_csv('{rows}')")
        database.execute("CREATE TABLE other (a INTEGER)")
    opened(house, "clinic.duckdb:visits", FACTS, target="ill")
    assert house.done()["state"] == "released"
    house.call("olga", "POST", "/datasets/patients/retire")
    house.work()
    assert place.exists()
    done = [line["action"] for line in house.call("uwe", "GET", "/audit")]
    assert "rows stay in the database" in done


@pytest.mark.servers
def test_a_table_of_a_named_database(tmp_path: Path, server: str) -> None:  # noqa: F811
    run_sql(server, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    run_sql(
        server,
        "CREATE TABLE visits (age int, bmi numeric, town text, ill text, seen timestamptz)",
        "INSERT INTO visits SELECT 20 + i % 60, 20 + i % 15, (ARRAY['Ghent','Ypres','Mons'])"
        "[1 + i % 3], CASE WHEN i % 60 > 30 THEN 'yes' ELSE 'no' END, "
        "CASE WHEN i = 7 THEN 'infinity' ELSE now() END FROM generate_series(1, 300) i",
    )
    (tmp_path / "databases.toml").write_text(f"clinic = {json.dumps(server)}\n")
    house = House(tmp_path, databases=str(tmp_path / "databases.toml"))
    facts = FACTS | {"seen": {"type": "timestamp[s]", "left_out": True}}
    opened(house, "database:clinic/public.visits", facts, target="ill")
    about = house.call("olga", "GET", "/datasets/patients")
    assert about["n_rows"] == 300
    job = house.done(epsilon=3.0)
    assert job["state"] == "released", job
    told = json.dumps([house.call(who, "GET", "/datasets") for who in ("olga", "ada", "uwe")])
    assert server not in told, "nobody is told the address"
    house.close()


def test_the_same_rows_have_one_budget(house: House) -> None:
    house.open()
    body = {"name": "again", "path": f"./{TABLE}", "protected": "patients", "why": "a test"}
    told = house.call("olga", "POST", "/datasets", body | {"epsilon": 5.0}, status=422)
    assert "share its budget" in told["message"]
    house.call("olga", "POST", "/datasets", body | {"budget": "patients"}, status=201)


def test_a_folder_and_a_file_in_it_have_one_budget(house: House) -> None:
    body = {"protected": "patients", "why": "a test", "epsilon": 5.0}
    house.call("olga", "POST", "/datasets", body | {"name": "all", "path": "clinic"}, status=201)
    part = body | {"name": "part", "path": "clinic/2020.csv"}
    told = house.call("olga", "POST", "/datasets", part, status=422)
    assert "share its budget, 'all'" in told["message"]


# Persons --------------------------------------------------------------------------------------


def visits_of_persons(path: Path) -> None:
    """Write visits: some people have very many, some IDs are missing."""
    rng = np.random.default_rng(0)
    lines = ["who,age,ill"]
    for visit in range(600):
        person = 1 if visit % 3 == 0 else rng.integers(2, 150)
        age = 30 + person % 50
        lines.append(
            f"{'' if visit % 50 == 7 else f'p{person}'},{age},{'yes' if age > 50 else 'no'}"
        )
    path.write_text("\n".join(lines) + "\n")


PERSONS: dict[str, dict[str, Any]] = {
    "age": {"type": "int64", "lower": 0, "upper": 120},
    "who": {"person_rows": 3, "per_person": "average"},
    "ill": {"type": "string", "labels": ["no", "yes"]},
}


def test_persons_from_registration_to_release(house: House, tmp_path: Path) -> None:
    visits_of_persons(tmp_path / "data" / "visits.csv")
    opened(house, "visits.csv", PERSONS, target="ill", unit="person", person="who")
    about = house.call("ada", "GET", "/datasets/patients")
    assert about["n_rows"] is None, "how many rows there are is no public fact"
    assert about["bounds"]["person"] == "who"
    assert about["bounds"]["person_rows"] == 3
    for asked in (
        {"kind": "explanation", "estimator": None},
        {"kind": "moments", "estimator": "PrivateMoments"},
    ):
        job = house.done(**asked)
        assert job["state"] == "released", (asked, job)
        promised = house.call("ada", "GET", f"/releases/{job['id']}")["guarantee"]
        assert promised["unit"] == "person"
    assert len(house.call("olga", "GET", "/datasets/patients/charges")) >= 2
    dummy = house.call("ada", "GET", "/datasets/patients/dummy")
    assert b"p1," not in dummy


def test_a_unit_person_needs_its_column(house: House, tmp_path: Path) -> None:
    write_table(tmp_path / "data" / "plain.csv")
    body = {"name": "plain", "path": "plain.csv", "protected": "x", "why": "a test"}
    body |= {"epsilon": 1.0, "unit": "person", "target": "ill"}
    house.call("olga", "POST", "/datasets", body, status=201)
    house.work()
    house.call("olga", "PUT", "/datasets/plain/format", {})
    for column in ("age", "bmi", "town", "ill"):
        house.call("olga", "PUT", f"/datasets/plain/columns/{column}", {})
    told = house.call("olga", "POST", "/datasets/plain/open", {}, status=422)
    assert "IDs" in told["message"]
