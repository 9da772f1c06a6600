"""Web process and workers as two users of the machine: neither has the other's secrets."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sfumato.report.certificate import verified
from tests.service.house import API, TABLE, write_table

pytestmark = pytest.mark.servers
WEB, WORKERS, GROUP = 54321, 54322, 54300
MODULE = ("-m", "sfumato")


def as_user(user: int) -> dict[str, Any]:
    return {"user": user, "group": GROUP, "extra_groups": [], "umask": 0o007}


def interpreter() -> tuple[str, dict[str, str]]:
    """Return an interpreter that other users may run, and its surroundings."""
    usual = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    around = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": "/nonexistent"}
    for command in (sys.executable, usual):
        with contextlib.suppress(OSError):
            asked = [command, "-c", "import numpy, fastapi, sfumato"]
            tried = subprocess.run(asked, env=around, capture_output=True, **as_user(WEB))
            if tried.returncode == 0:
                return command, around
    pytest.skip("the interpreter and its packages are not readable by other users")


@pytest.fixture
def folder() -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("only root can start processes of two users")
    made = Path(tempfile.mkdtemp(prefix="sfumato-users-"))
    made.chmod(0o755)
    data, state = made / "data", made / "state"
    data.mkdir(mode=0o755)
    write_table(data / TABLE)
    (data / TABLE).chmod(0o400)
    for path in (data, data / TABLE):
        os.chown(path, WORKERS, GROUP)
    state.mkdir()
    os.chown(state, WEB, GROUP)
    state.chmod(0o2770)
    yield made
    shutil.rmtree(made)


@contextlib.contextmanager
def part(name: str, user: int, folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command, around = interpreter()
    words = [command, *MODULE, "serve", folder / "data", "--state", folder / "state"]
    words += ["--port", str(port), "--part", name]
    with (folder / f"{name}.txt").open("wb") as output:
        process = subprocess.Popen(words, env=around, stdout=output, stderr=output, **as_user(user))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(900)


def test_neither_user_has_the_secrets_of_the_other(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with (
        httpx.Client(base_url=address, timeout=900, trust_env=False) as client,
        part("web", WEB, folder, port) as web,
        part("workers", WORKERS, folder, port),
    ):
        link = waited(lambda: first_link(folder), web, folder)
        waited(lambda: answers(client), web, folder)
        code = link.partition("#")[2]
        told = client.post("/sign-in", data={"token": code}, follow_redirects=False)
        assert told.status_code == 303, told.text
        release = first_release(folder, client)
        files = release["files"]
        assert {"model.sfumato", "certificate.json"} <= set(files)
        state = folder / "state"
        certificate = (state / "releases" / release["id"] / "certificate.json").read_text()
        public = (state / "workers-signing.key.pub").read_text().strip()
        verified(certificate, public_key=public)
        owned = {
            folder / "data" / TABLE: WORKERS,
            state / "workers-signing.key": WORKERS,
            state / "secret.key": WEB,
            state / "signing.key": WEB,
        }
        for path, owner in owned.items():
            assert path.stat().st_uid == owner, path
            other = WEB if owner == WORKERS else WORKERS
            tried = subprocess.run(["/bin/cat", path], capture_output=True, **as_user(other))
            assert tried.returncode != 0, path
            assert tried.stdout == b"", path


def waited(look: Any, process: subprocess.Popen[bytes], folder: Path) -> Any:
    for _ in range(9000):
        found = look()
        if found:
            return found
        assert process.poll() is None, (folder / "web.txt").read_text()
        time.sleep(0.1)
    raise AssertionError((folder / "web.txt").read_text() + (folder / "workers.txt").read_text())


def first_link(folder: Path) -> str:
    words = (folder / "web.txt").read_text().split()
    return next((word for word in words if "/sign-in#" in word), "")


def answers(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return client.get("/api/health").status_code == 200
    return False


def first_release(folder: Path, client: httpx.Client) -> dict[str, Any]:
    """Open the table and ask for a density and moments, over HTTP with real tokens."""
    from sfumato.service.access import make_token
    from sfumato.service.store import Store

    store = Store(str(folder / "state" / "service.db"))
    store.add_person("test", "ada", "analyst")
    tokens = {name: make_token(store, "test", name, hours=1) for name in ("officer", "ada")}
    store.close()

    def call(who: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {tokens[who]}"}
        told = client.request(method, API + path, json=body, headers=headers)
        assert told.status_code < 300, told.text
        return told.json()

    def ended(path: str, states: tuple[str, ...]) -> dict[str, Any]:
        for _ in range(9000):
            found: dict[str, Any] = call("officer", "GET", path)
            if found["state"] not in states:
                return found
            time.sleep(0.1)
        raise AssertionError((folder / "workers.txt").read_text())

    body = {"name": "patients", "path": TABLE, "target": "ill", "protected": "patients"}
    body |= {"why": "a test", "epsilon": 5.0, "delta": 1e-5, "auto_approve": 3.0}
    call("officer", "POST", "/datasets", body)
    found = ended("/datasets/patients", ("describing",))
    assert found["state"] == "proposed", found
    for column in ("age", "bmi", "town", "ill"):
        facts: dict[str, Any] = {"type": "string", "left_out": True} if column == "bmi" else {}
        call("officer", "PUT", f"/datasets/patients/columns/{column}", facts)
    call("officer", "PUT", "/datasets/patients/format", {})
    call("officer", "POST", "/datasets/patients/open", {"one_row_per_person": True})
    call("officer", "PUT", "/datasets/patients/quotas/ada", {"epsilon": 4.0})
    releases = []
    for task in ({"kind": "density", "columns": ["age"]}, {"kind": "moments"}):
        asked = {**task, "epsilon": 0.5, "purpose": "a test"}
        job = call("ada", "POST", "/datasets/patients/jobs", asked)
        assert ended(f"/jobs/{job['id']}", ("queued", "running"))["state"] == "released"
        releases.append(call("ada", "GET", f"/releases/{job['id']}"))
    assert "certificate.json" in releases[0]["files"]
    points = {"points": [[40.0]]}
    assert "values" in call("ada", "POST", f"/releases/{releases[0]['id']}/ask", points)
    model = client.get(
        f"{API}/releases/{releases[1]['id']}/files/model.sfumato",
        headers={"Authorization": f"Bearer {tokens['ada']}"},
    )
    assert model.status_code == 200, "the web process reads what the workers have released"
    return dict(releases[1])
