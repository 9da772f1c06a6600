"""The files of a deployment: complete, safe defaults, and what Flower reads."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato import load
from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.federated import HullTask, read_party
from sfumato.federated.flower import processes
from sfumato.federated.flower.app_folder import write_app
from sfumato.federated.flower.deployment import write_deployment
from tests.federated.federations import hulls

TASK = HullTask("t", hulls(), "distances")


def test_a_deployment_has_all_its_files(tmp_path: Path) -> None:
    top = write_deployment(tmp_path / "f", TASK, ["clinic-a", "clinic-b"], host="hub.example.org")
    run = tomllib.loads((top / "run.toml").read_text())
    assert run["task"] == "t"
    assert run["serve"] == "distances"
    assert run["parties"] == run["min-parties"] == 2
    assert run["party-names"] == "clinic-a,clinic-b"
    assert load(run["estimator"]).epsilon == TASK.estimator.epsilon
    app = tomllib.loads((top / "sfumato-hulls" / "pyproject.toml").read_text())
    assert set(run) <= set(app["tool"]["flwr"]["app"]["config"])
    link = (top / "coordinator" / "superlink.sh").read_text()
    assert "--host 127.0.0.1" in link
    assert "--enable-supernode-auth" in link
    assert "--insecure" not in link
    assert "return 403" in (top / "coordinator" / "nginx.conf").read_text()
    for name in ("clinic-a", "clinic-b"):
        node = top / "parties" / name / "supernode.sh"
        assert "hub.example.org:8443" in node.read_text()
        assert node.stat().st_mode & stat.S_IXUSR
        party = tomllib.loads((node.parent / "party.toml").read_text())
        assert party["name"] == name
        assert party["max_epsilon"] == 16.0


def test_the_components_are_those_of_the_package(tmp_path: Path) -> None:
    for kind in ("hulls", "sums"):
        app = write_app(tmp_path, kind)
        for side in ("client_app", "server_app"):
            text = (app / f"sfumato_{kind}" / f"{side}.py").read_text()
            assert f"from sfumato.federated.flower.adapter import {side}" in text
            assert f'app = {side}("{kind}")' in text


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_deployment(tmp_path / "f", TASK, ["a"], host="h")
    with pytest.raises(InvalidInputError, match="not empty"):
        write_deployment(tmp_path / "f", TASK, ["a"], host="h")


@pytest.mark.parametrize("parties", [[], ["a", "a"], ["../a"], ["a b"]])
def test_names_are_plain_and_different(tmp_path: Path, parties: list[str]) -> None:
    with pytest.raises(InvalidInputError):
        write_deployment(tmp_path / "f", TASK, parties, host="h")


def test_certificates_are_signed_by_their_authority(tmp_path: Path) -> None:
    pytest.importorskip(
        "cryptography", reason="comes with Flower: pip install 'sfumato[federated]'"
    )
    top = write_deployment(tmp_path / "f", TASK, ["a"], host="hub.example.org", certificates=True)
    folder = top / "coordinator"
    assert stat.S_IMODE((folder / "server.key").stat().st_mode) == 0o600
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    assert shaken_hands(client, server, "hub.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(client, server, "elsewhere.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(ssl.create_default_context(), server, "hub.example.org")


def shaken_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> bool:
    """Let both sides talk in memory until the handshake is done."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname=host)
    there = server.wrap_bio(to_server, to_client, server_side=True)
    done = set()
    for _ in range(6):
        for side in (here, there):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    return len(done) == 2


def test_a_written_party_file_can_be_read(tmp_path: Path) -> None:
    top = write_deployment(tmp_path / "f", TASK, ["a"], host="h")
    path = top / "parties" / "a" / "party.toml"
    lines = path.read_text().replace("rows.parquet", "rows.npz").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("ledger", "bounds"))]
    path.write_text('ledger = "none"\nbounds = "none"\n' + "".join(kept))
    assert read_party(path).name == "a"


# The scripts, with programs that stand in for Flower's --------------------------------------------


def stand_in(folder: Path, name: str, text: str) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Return a function that runs a script of a deployment; sleeping takes no time there."""
    top = write_deployment(tmp_path / "f", TASK, ["a"], host="h")
    programs = tmp_path / "programs"
    programs.mkdir()
    stand_in(programs, "sleep", "exit 0")

    def run(path: str, text: str, certificate: str = "") -> tuple[int, str, int]:
        started = tmp_path / "started"
        for name in ("flower-supernode", "flower-superlink"):
            stand_in(programs, name, f'echo x >> "{started}"; n=$(wc -l < "{started}")\n{text}')
        if not certificate:  # whatever its file holds, it is valid
            stand_in(programs, "openssl", "exit 0")
        else:
            (programs / "openssl").unlink(missing_ok=True)
        done = subprocess.run(
            [str(top / path)],
            env={"PATH": f"{programs}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        times = len(started.read_text().split()) if started.exists() else 0
        return done.returncode, done.stderr, times

    return run


def test_a_node_that_is_refused_is_started_again_until_it_is_let_in(script: Any) -> None:
    code, told, times = script("parties/a/supernode.sh", '[ "$n" -ge 4 ]')
    assert (code, times) == (0, 4)
    assert told.count("started again") == 3


def test_a_node_that_is_never_let_in_gives_up_and_says_what_to_look_at(script: Any) -> None:
    code, told, times = script("parties/a/supernode.sh", "exit 1")
    assert (code, times) == (1, 12)
    assert "is its key registered" in told


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")
@pytest.mark.parametrize(
    ("path", "certificate"),
    [("parties/a/supernode.sh", "ca.crt"), ("coordinator/superlink.sh", "server.pem")],
)
@pytest.mark.parametrize("days", [0, 30])
def test_an_expired_certificate_is_named_before_anything_starts(
    script: Any, tmp_path: Path, path: str, certificate: str, days: int
) -> None:
    certificates = pytest.importorskip("sfumato.federated.flower.certificates")
    folder = (tmp_path / "f" / path).parent
    certificates.make_server_certificate(folder, ["localhost"], days=days)
    code, told, times = script(path, "exit 0", certificate)
    assert (code, times) == ((1, 0) if days == 0 else (0, 1))
    assert (f"{certificate} has expired" in told) == (days == 0)


# How the SuperLink is watched ---------------------------------------------------------------------


def test_an_expired_certificate_is_told_at_once(tmp_path: Path) -> None:
    certificates = pytest.importorskip("sfumato.federated.flower.certificates")
    certificates.make_server_certificate(tmp_path, ["localhost", "127.0.0.1"], days=0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        served = threading.Thread(target=_shake_once, args=(server, context))
        served.start()
        with pytest.raises(FederationError, match="certificate has expired"):
            processes._healthy(server.getsockname()[1], tmp_path / "ca.crt")
        served.join()


def _shake_once(server: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = server.accept()
    with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
        pass


def test_nobody_there_is_no_error_yet(tmp_path: Path) -> None:
    assert not processes._healthy(processes.free_port(), None)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[processes.SuperLink]:
    watched = processes.SuperLink(tmp_path)
    (tmp_path / "flower-superlink.log").write_text("last words")
    watched.process = subprocess.Popen(["sleep", "60"])
    yield watched
    watched.process.kill()
    watched.process.wait()


@pytest.mark.parametrize(
    ("details", "sentence"),
    [
        ("No heartbeat received from the task", "No heartbeat.*it was killed"),
        ("An exception", "An exception"),
        ("", "no reason"),
    ],
)
def test_a_failed_run_is_told_with_its_reason(
    link: processes.SuperLink, monkeypatch: pytest.MonkeyPatch, details: str, sentence: str
) -> None:
    run = {"status": "finished:failed", "status-details": details}
    monkeypatch.setattr(link, "flwr", lambda *words: json.dumps({"runs": [run]}))
    with pytest.raises(FederationError, match=f"{sentence}.*nobody pays twice"):
        link.wait(1, 5)


def test_a_superlink_that_ended_is_told_with_its_last_words(link: processes.SuperLink) -> None:
    link.process.kill()
    link.process.wait()
    with pytest.raises(FederationError, match=r"code -9.*\n.*last words"):
        link.wait(1, 5)
