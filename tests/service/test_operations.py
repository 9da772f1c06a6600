"""What the page on operations tells to do: backup and restore, keys, upgrade, two users."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.report.certificate import CertificateError, verified
from sfumato.service.store import ServiceError, Store
from tests.service.house import House
from tests.service.test_studio import Browser


def backup(source: Path, target: Path) -> None:
    """Copy as the page says: the store, then the ledger, then the releases."""
    target.mkdir()
    for name in ("service.db", "ledger.db"):
        with sqlite3.connect(source / name) as old, sqlite3.connect(target / name) as new:
            old.backup(new)
        old.close()
        new.close()
    shutil.copytree(source / "releases", target / "releases")
    for key in source.glob("*.key*"):
        shutil.copy2(key, target)


def test_a_restored_service_goes_on_and_an_older_ledger_is_betrayed(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.open()
    job = house.done()
    backup(tmp_path / "state", tmp_path / "backup")
    statement = tmp_path / "statement.json"
    statement.write_text(json.dumps(house.call("uwe", "GET", "/audit/statement")))
    house.close()
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "backup", tmp_path / "state")
    house = House(tmp_path)
    assert house.call("ada", "GET", f"/releases/{job['id']}")["id"] == job["id"]
    house.call("uwe", "GET", "/audit/verify")
    assert house.done()["state"] == "released"
    statement.write_text(json.dumps(house.call("uwe", "GET", "/audit/statement")))
    house.close()
    shutil.copy(tmp_path / "backup" / "ledger.db", tmp_path / "state" / "ledger.db")
    arguments = ["serve", str(tmp_path / "data"), "--state", str(tmp_path / "state")]
    told = CliRunner().invoke(app, [*arguments, "--heads", str(statement)])
    assert told.exit_code == 3
    assert "integrity check failed" in told.stderr
    house = House(tmp_path)
    answer = house.call("uwe", "GET", "/audit/verify", status=500)
    assert "older copy" in answer["message"]
    house.close()


def test_keys_are_changed_and_old_certificates_stay_good(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.open()
    job, state = house.done(), tmp_path / "state"
    old_key = (state / "signing.key.pub").read_text().strip()
    browser = Browser(house, "olga")
    for name in ("signing.key", "signing.key.pub", "secret.key"):
        (state / name).rename(tmp_path / name)
    house.close()
    house = House(tmp_path)
    new_key = (state / "signing.key.pub").read_text().strip()
    assert new_key != old_key
    folder = state / "releases" / job["id"]
    certificate, model = (folder / "certificate.json").read_bytes(), folder / "model.sfumato"
    verified(certificate, file=model, public_key=old_key)
    with pytest.raises(CertificateError):
        verified(certificate, file=model, public_key=new_key)
    browser.house = house
    browser.post("/people", 403, name="eve", role="analyst")  # a form of before
    house.close()


def test_a_release_without_a_readable_key_is_still_a_release(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.open()
    key = tmp_path / "state" / "signing.key"
    key.unlink()
    key.mkdir()  # as unreadable as a file of another user
    job = house.done()
    assert job["state"] == "released"
    assert "certificate.json" not in house.call("ada", "GET", f"/releases/{job['id']}")["files"]
    house.close()


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "service.db"))
    store.prepare()
    store._database.write(lambda t: t.run("UPDATE service_about SET format = 99"))
    with pytest.raises(ServiceError, match="newer"):
        store.prepare()
    store.close()


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert "does not exist" in run(app, ["serve", str(tmp_path / "none")]).stderr
    one = run(app, ["serve", str(tmp_path), "--certificate", str(tmp_path)])
    assert "'--key'" in one.stderr
    part = run(app, ["serve", str(tmp_path), "--part", "all"])
    assert "'--part'" in part.stderr
    (tmp_path / "no.json").write_text("{}")
    state = ["--state", str(tmp_path / "state"), "--heads", str(tmp_path / "no.json")]
    assert "not a statement" in run(app, ["serve", str(tmp_path), *state]).stderr


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    house = House(tmp_path)
    for name in ("secret.key", "signing.key"):
        assert (tmp_path / "state" / name).stat().st_mode & 0o077 == 0
    house.close()
