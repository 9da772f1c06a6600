"""The files of a deployment: complete, safe defaults, and what Flower reads."""

from __future__ import annotations

import ssl
import stat
import tomllib
from pathlib import Path

import pytest

from sfumato import load
from sfumato.exceptions import InvalidInputError
from sfumato.federated import HullTask, read_party
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
    for kind in ("hulls", "linear"):
        app = write_app(tmp_path, kind)
        for side in ("client_app", "server_app"):
            text = (app / f"sfumato_{kind}" / f"{side}.py").read_text()
            assert f"from sfumato.federated.flower.{kind} import {side}" in text


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
