"""What an operator meets: starts that fail, backups, upgrades, health, metrics, retention."""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from sfumato.exceptions import InvalidInputError, LedgerTamperedError
from sfumato.report.certificate import verified
from sfumato.service import serving
from sfumato.service.serving import serve_parts
from sfumato.service.store import Store
from tests.cli.running import done, refused
from tests.service.house import House, write_table


def start(house: House) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sfumato", "serve", "--config", str(house.file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_start_that_cannot_be_says_why(tmp_path: Path) -> None:
    """Reproduced: a used port gave a link to the other service; a missing certificate looped."""
    house = House(tmp_path)
    house.close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        house.service = {"port": taken.getsockname()[1]}
        house.declare()
        told = start(house)
    assert (told.returncode, told.stdout) == (2, "")
    assert "Cannot listen" in told.stderr
    held = (house.settings.state / "workers.lock").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    told = start(house)
    assert (told.returncode, "Another service" in told.stderr) == (2, True)
    held.close()
    house.service = {"host": "0.0.0.0"}
    house.declare()
    with pytest.raises(InvalidInputError, match="in the clear"):
        serve_parts(type(house.settings)(house.file), ready=print)
    house.file.write_text("[service")
    told = start(house)
    assert (told.returncode, "Traceback" in told.stderr) == (2, False)
    assert "not valid TOML" in told.stderr


def test_the_command_makes_and_revokes_tokens(fresh: House) -> None:
    words = ("serve", "--config", fresh.file)
    token = done(*words, "token", "uwe", "--scope", "read").strip()
    fresh.tokens["uwe"] = token
    assert fresh.call("uwe", "GET", "/me")["scope"] == "read"
    assert token.split("_")[1] in str(fresh.call("olga", "GET", "/audit")["lines"])
    done(*words, "revoke", token.split("_")[1])
    fresh.call("uwe", "GET", "/me", status=401)
    refused(*words, "token", "eve")


def test_an_older_ledger_is_refused_at_the_start(tmp_path: Path) -> None:
    """Reproduced: without --heads, an older copy was served, and its budget spent twice."""
    house = House(tmp_path)
    house.open()
    assert house.done(epsilon=0.3)["state"] == "released"
    copy = Path(house.settings.ledger_address).read_bytes()
    assert house.done(epsilon=0.3)["state"] == "released"
    house.close()
    Path(house.settings.ledger_address).write_bytes(copy)
    with pytest.raises(LedgerTamperedError):
        serve_parts(type(house.settings)(house.file), ready=print)
    house.settings.witness.unlink()  # the releases are witnesses too
    with pytest.raises(LedgerTamperedError, match="no charge"):
        serve_parts(type(house.settings)(house.file), ready=print)


def test_a_store_of_another_version_is_refused(fresh: House) -> None:
    with closing(sqlite3.connect(fresh.settings.store_address)) as database, database:
        database.execute("UPDATE service_about SET format = 99")
    with pytest.raises(Exception, match="has format 99"):
        Store(fresh.settings.store_address).prepare()


def test_health_looks_at_workers_and_metrics_need_a_token(
    fresh: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = fresh.request("GET", "/api/health")
    assert (told.status_code, told.json()["workers"]) == (503, False)
    fresh.open()
    told = fresh.request("GET", "/api/health")
    assert (told.status_code, told.json()["status"]) == (200, "ok")
    alive = fresh.settings.state / "workers.alive"
    os.utime(alive, (time.time() - 60, time.time() - 60))
    assert fresh.request("GET", "/api/health").status_code == 503
    monkeypatch.setattr("sfumato.service.config.MIN_SPACE", 1e30)
    assert not fresh.request("GET", "/api/health").json()["disk"]
    fresh.submit()
    headers = {"Authorization": f"Bearer {fresh.tokens['uwe']}"}
    figures = fresh.request("GET", "/metrics", headers=headers).text
    assert 'sfumato_service{what="jobs queued"} 1.0' in figures
    assert 'sfumato_service{what="workers ok"} 0.0' in figures
    assert "sfumato_request_seconds_bucket" in figures


def test_what_is_older_than_it_is_kept_is_deleted_and_stays_charged(tmp_path: Path) -> None:
    house = House(tmp_path, keep_days=1)
    house.open()
    job = house.done()
    spent = house.spent()
    old = "2020-01-01T00:00:00.000+00:00"
    house.office.store._database.write(
        lambda store: store.run("UPDATE service_records SET created = ?", (old,))
    )
    house.workers._sweep()
    house.call("ada", "GET", f"/releases/{job['id']}", status=404)
    house.call("ada", "GET", f"/jobs/{job['id']}", status=404)
    assert not (house.settings.releases / job["id"]).exists()
    assert house.spent() == spent
    assert "delete release" in [
        one["action"] for one in house.call("uwe", "GET", "/audit")["lines"]
    ]
    house.close()


def test_keys_are_changed_and_old_certificates_stay_good(fresh: House, tmp_path: Path) -> None:
    fresh.open()
    job = fresh.done()
    folder, key = fresh.settings.releases / job["id"], fresh.settings.signing_key
    public = Path(f"{key}.pub").read_text().strip()
    assert fresh.call("uwe", "GET", "/audit")["public_key"] == public
    assert fresh.call("uwe", "GET", "/audit/statement")["signature"]["public_key"] == public
    for path in (key, Path(f"{key}.pub")):
        path.rename(tmp_path / path.name)
    other = fresh.done()
    again = (fresh.settings.releases / other["id"] / "certificate.json").read_bytes()
    verified((folder / "certificate.json").read_bytes(), public_key=public)
    with pytest.raises(Exception, match="key"):
        verified(again, public_key=public)


def test_no_command_line_tells_the_link_of_a_studio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser is a process whose words every user of the machine can read."""
    write_table(tmp_path / "rows.csv")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(serving, "serve_parts", lambda _, ready: ready("http://127.0.0.1:1"))
    link = done("studio", tmp_path / "rows.csv").splitlines()[1]
    assert "token=sfm_" in link
    assert "sfm_" not in opened[0]
    page = tmp_path / "rows-studio" / "open.html"
    assert (opened[0], stat.S_IMODE(page.stat().st_mode)) == (page.as_uri(), 0o600)
    assert link in page.read_text()


def test_secrets_are_for_their_owner_only(fresh: House) -> None:
    fresh.settings.key_for("web")
    for name in ("secret.key", "signing.key"):
        assert stat.S_IMODE((fresh.settings.state / name).stat().st_mode) == 0o600


def test_half_open_connections_and_one_address_do_not_keep_others_out(tmp_path: Path) -> None:
    """Reproduced: 230 half-open requests gave 503; strangers of all addresses shared one limit."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    house = House(tmp_path, requests_per_second=2, port=port)
    house.close()
    command = [sys.executable, "-m", "sfumato", "serve", "--config", str(house.file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None

    def status(address: str) -> int:
        way = httpx.HTTPTransport(local_address=address)
        with httpx.Client(transport=way, timeout=60) as client:
            return client.get(f"http://127.0.0.1:{port}/api/v1/me").status_code

    try:
        assert b"serves at" in process.stdout.readline()
        with ExitStack() as stack:
            address = ("127.0.0.1", port)
            held = [stack.enter_context(socket.create_connection(address)) for _ in range(230)]
            second = stack.enter_context(socket.create_connection(address, timeout=60))
            second.sendall(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            assert second.recv(4096).startswith(b"HTTP/1.1 303")
            time.sleep(1)  # the answer is complete
            second.sendall(b"GET / HTTP/1.1\r\n")
            for one in held:
                one.sendall(b"GET / HTTP/1.1\r\nHost: te")
            assert status("127.0.0.1") == 401
            while status("127.0.0.1") != 429:
                pass
            assert status("127.0.0.2") == 401
            assert held[0].recv(1) == b"", "it is closed by and by"
            while second.recv(4096):  # found: after a whole request, a half one was kept for ever
                pass
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
