"""What the page on operations tells to do: backup and restore, keys, upgrade, two users."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.report.certificate import CertificateError, verified
from sfumato.service.store import ServiceError, Store
from tests.interfaces.service.house import House
from tests.interfaces.service.test_service_studio import Browser

DEPLOY = Path(__file__).parents[3] / "deploy"


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


@pytest.mark.parametrize("part", ["web", "workers"])
def test_units_start_what_the_command_offers(part: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / f"sfumato-{part}.service")
    command = unit["Service"]["ExecStart"]
    assert f"--part {part}" in command
    told = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).stdout
    for option in [word for word in command.split() if word.startswith("--")]:
        assert option in told
    assert unit["Service"]["NoNewPrivileges"] == "yes"


@pytest.mark.parametrize("part", ["web", "workers"])
def test_systemd_takes_the_units(part: str, tmp_path: Path) -> None:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / f"sfumato-{part}.service"
    text = (DEPLOY / unit.name).read_text()
    unit.write_text(text.replace("/opt/sfumato/bin/sfumato", "/bin/true"))
    done = subprocess.run([command, "verify", str(unit)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr, done.stderr
    unit.write_text(unit.read_text().replace("Restart=always", "Restart=perhaps"))
    wrong = subprocess.run([command, "verify", str(unit)], capture_output=True, text=True)
    assert "restart" in wrong.stderr, "what is wrong is seen"


def test_the_compose_file_is_one() -> None:
    known = pytest.importorskip("check_jsonschema", reason="needs check-jsonschema")
    folder = Path(str(known.__file__)).parent / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "compose-spec.json").read_text())
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    jsonschema.validate(composed, schema)
    composed["services"]["web"]["ports"] = {"8765": "8765"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(composed, schema)
    for name, one in composed["services"].items():
        image = one["image"]
        assert not image.endswith(":latest"), name
        assert one.get("privileged") is None, name
        for volume in one.get("volumes", ()):
            named = volume.partition(":")[0]
            assert named in composed["volumes"] or named.startswith("${"), volume
    assert all("PASSWORD" not in line or "${" in line for line in _lines(DEPLOY / "compose.yaml"))


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_the_container_file_keeps_the_usual_rules() -> None:
    """The rules of hadolint that would matter here; the workflow runs hadolint itself."""
    steps = [line.split(maxsplit=1) for line in _lines(DEPLOY / "Containerfile") if line]
    verbs = [verb for verb, _ in steps]
    told = dict(steps)
    assert re.fullmatch(r"[\w./-]+:\d[\w.-]*", told["FROM"]), "a version, not the latest one"
    assert told["USER"].isdigit()
    assert int(told["USER"]) > 0
    assert verbs.index("USER") < verbs.index("ENTRYPOINT")
    assert not {"ADD", "MAINTAINER"} & set(verbs)
    for verb in ("ENTRYPOINT", "HEALTHCHECK"):
        assert isinstance(json.loads(told[verb].removeprefix("CMD ")), list), "no shell between"
    for _, rest in [step for step in steps if step[0] == "RUN"]:
        assert "pip install" not in rest or "--no-cache-dir" in rest
        assert "sudo" not in rest
    assert not re.search(r"(?i)(password|token|secret)\s*=", (DEPLOY / "Containerfile").read_text())


def test_no_secret_is_in_what_is_deployed() -> None:
    """A scan of the files in which one would be forgotten; the workflow scans all of them."""
    secrets = pytest.importorskip("detect_secrets", reason="needs detect-secrets")
    settings = pytest.importorskip("detect_secrets.settings", reason="needs detect-secrets")
    root = DEPLOY.parent
    paths = [*DEPLOY.iterdir(), *(root / ".github" / "workflows").iterdir()]
    paths += [root / "pyproject.toml", root / "docs" / "howto" / "serve.md"]
    with settings.default_settings():
        found = secrets.SecretsCollection()
        for path in paths:
            found.scan_file(str(path))
    # Hashes of actions in workflows are no secrets.
    kept = [one for _, one in found if one.type != "Hex High Entropy String"]
    assert not [(one.filename, one.line_number, one.type) for one in kept]


def test_a_secret_would_be_seen(tmp_path: Path) -> None:
    secrets = pytest.importorskip("detect_secrets", reason="needs detect-secrets")
    settings = pytest.importorskip("detect_secrets.settings", reason="needs detect-secrets")
    name, value = "pass" + "word", "tr0ub4dor" + "-and-3-more"
    (tmp_path / "service.env").write_text(f'{name} = "{value}"\n')
    with settings.default_settings():
        found = secrets.SecretsCollection()
        found.scan_file(str(tmp_path / "service.env"))
    assert found


def test_only_the_workers_of_the_containers_see_the_rows() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    seen = {name: [v for v in one["volumes"] if "/data" in v] for name, one in services.items()}
    assert seen["workers"] == ["${SFUMATO_DATA:?folder of the tables}:/data"]
    assert seen["web"] == ["names:/data:ro"]
    assert services["web"]["ports"] == ["127.0.0.1:8765:8765"]
    assert "--host" in (DEPLOY / "Containerfile").read_text()


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    house = House(tmp_path)
    for name in ("secret.key", "signing.key"):
        assert (tmp_path / "state" / name).stat().st_mode & 0o077 == 0
    house.close()
