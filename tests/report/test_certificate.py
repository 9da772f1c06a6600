"""Certificates: what they say, who can check them, and that no change of them passes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

import sfumato
from sfumato import Bounds, Ledger, PrivateMoments, load, save
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.models.saving import write_members
from sfumato.privacy import delta_from_mu, mu_from_budget
from sfumato.privacy.events import GaussianEvent
from sfumato.report.certificate import (
    CertificateError,
    certificate_of,
    new_key,
    signed,
    subject_of,
    verified,
    written,
)
from sfumato.tables.files import write_table
from tests.cli.running import done, run

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads(
    (Path(sfumato.__file__).parent / "report" / "certificate-schema-1.json").read_text()
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model that a ledger paid for, and a key."""
    made = tmp_path_factory.mktemp("certificates")
    budget = Ledger(made / "budget.db").create("patients", epsilon=2.0, delta=1e-5)
    noted = budget.noted(purpose="mean of measurements", by="Ada")
    model = PrivateMoments(epsilon=1.0, delta=1e-5, bounds=Bounds(norm=1.0), ledger=noted)
    save(model.fit(np.zeros((50, 3))), made / "model.sfumato")
    new_key(made / "key.pem")
    return made


def content(folder: Path) -> dict[str, Any]:
    budget = Ledger(folder / "budget.db").dataset("patients")
    return certificate_of(folder / "model.sfumato", budget=budget)


def test_the_content_is_true_and_keeps_the_published_schema(folder: Path) -> None:
    found = content(folder)
    certificate = signed(found, folder / "key.pem")
    jsonschema.validate(certificate, SCHEMA)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert (found["epsilon"], found["delta"], found["unit"]) == (1.0, 1e-5, "record")
    assert (found["purpose"], found["by"]) == ("mean of measurements", "Ada")
    assert found["bounds"]["bounds"]["norm"] == 1.0
    head = Ledger(folder / "budget.db").dataset("patients").head()
    assert found["ledger"]["head"] == head == found["ledger"]["charge_hash"]
    mu = mu_from_budget(1.0, 1e-5)
    for point in found["loss_curve"]:
        assert point["delta"] >= delta_from_mu(mu, point["epsilon"]) * (1 - 1e-3)
        assert point["delta"] <= delta_from_mu(mu, point["epsilon"]) * (1 + 1e-3) + 1e-15
    for wrong in ({"epsilon": [1]}, {"surprise": 1}, {"format_version": 2}, {"status": "fine"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**certificate, **wrong}, SCHEMA)


def test_a_thousand_random_edits_are_refused(folder: Path) -> None:
    text = written(signed(content(folder), folder / "key.pem")).encode()
    verified(text, file=folder / "model.sfumato")
    rng = np.random.default_rng(0)
    for trial in range(1000):
        place = int(rng.integers(len(text)))
        kind = trial % 4
        if kind == 0:  # another byte
            other = bytes([(text[place] + int(rng.integers(1, 256))) % 256])
            edited = text[:place] + other + text[place + 1 :]
        elif kind == 1:  # one byte less
            edited = text[:place] + text[place + 1 :]
        elif kind == 2:  # a space, a digit or a letter more
            edited = text[:place] + bytes([int(rng.choice(list(b" 0a,\n")))]) + text[place:]
        else:  # two parts exchanged
            end = int(rng.integers(len(text)))
            low, high = sorted((place, end))
            edited = text[:low] + text[high:] + text[low:high]
        if edited != text:
            with pytest.raises(CertificateError):
                verified(edited)


def test_another_signer_and_another_file_are_refused(folder: Path, tmp_path: Path) -> None:
    public = new_key(tmp_path / "other.pem")
    assert (tmp_path / "other.pem").stat().st_mode & 0o077 == 0
    text = written(signed(content(folder), folder / "key.pem"))
    with pytest.raises(CertificateError, match="a different key"):
        verified(text, public_key=public)
    again = {**json.loads(text), "epsilon": 0.1}  # signed anew by somebody else
    with pytest.raises(CertificateError, match="states a different guarantee"):
        verified(written(signed(again, tmp_path / "other.pem")), file=folder / "model.sfumato")
    model, hashes = load(folder / "model.sfumato"), set()
    model.means_ = model.means_ + 1
    save(model, tmp_path / "model.sfumato")
    with pytest.raises(CertificateError, match="other content"):
        verified(text, file=tmp_path / "model.sfumato")
    # Found: a member whose name ends as that of a certificate does was not in the hash.
    for content_of_it in (b"a", b"b"):
        with (tmp_path / "model.sfumato").open("wb") as file:
            write_members(file, {"header.json": b"{}", "x  certificate.json": content_of_it})
        hashes.add(subject_of(tmp_path / "model.sfumato")["sha256"])
    assert len(hashes) == 2
    with pytest.raises(InvalidInputError, match="never replaced"):
        new_key(tmp_path / "other.pem")


def test_a_file_that_states_less_than_was_charged_is_not_certified(
    folder: Path, tmp_path: Path
) -> None:
    model, budget = load(folder / "model.sfumato"), Ledger(folder / "budget.db").dataset("patients")
    stated = model.guarantee_
    for change, told in (
        ({"epsilon": 0.1, "events": (GaussianEvent(100.0),)}, "charged for more"),
        ({"epsilon": 0.1}, "its releases cost 1"),
        ({"delta": 1e-9}, "its releases cost 1"),
        ({"unit": "person"}, "do not compose"),
        ({"relation": "add_or_remove_one"}, "do not compose"),
    ):
        model.guarantee_ = replace(stated, **change)
        save(model, tmp_path / "model.sfumato")
        with pytest.raises(SfumatoError, match=told):
            certificate_of(tmp_path / "model.sfumato", budget=budget)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_it_is_about_the_cells_of_a_table(folder: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    note = {"class": "Fabricator", "confidence": 0.95}
    note |= {"guarantee": load(folder / "model.sfumato").guarantee_.to_dict()}
    rows = pa.table({"age": [1, 2, None], "town": ["a", "b", "c"]})
    write_table(rows, path, note)
    text = written(signed(certificate_of(path), folder / "key.pem"))
    verified(text, file=path)
    reading = {"n_entries": 2, "pure_epsilon": 0.1, "epsilon": 0.1, "delta": 0.0}
    changes = {"sentence": "Proved: all.", "public": [], "whole_range": True}
    for change in ({"record_reading": {**reading, "atom_probability": 0.0}}, changes):
        for name, value in change.items():
            write_table(rows, path, {**note, "guarantee": {**note["guarantee"], name: value}})
            with pytest.raises(CertificateError, match="states a different guarantee"):
                verified(text, file=path)
    for change in ({"confidence": 0.99}, {"bounds": {"columns": {}}}, {"class": "PrivateMoments"}):
        write_table(rows, path, {**note, **change})
        with pytest.raises(CertificateError, match="states a different guarantee"):
            verified(text, file=path)
    write_table(pa.table({"age": [1, 2, 4], "town": ["a", "b", "c"]}), path, note)
    with pytest.raises(CertificateError, match="other content"):
        verified(text, file=path)


def test_anybody_can_check_it_in_ten_lines(folder: Path, tmp_path: Path) -> None:
    """The lines of the page run without Sfumato."""
    page = (ROOT / "docs" / "howto" / "certificate.md").read_text()
    code = re.search(r"```text\n(# check\.py.*?)```", page, flags=re.DOTALL)
    assert code is not None
    assert len(code[1].strip().splitlines()) <= 11
    assert "sfumato" not in code[1].replace("certificate", "")
    (tmp_path / "check.py").write_text(code[1])
    (tmp_path / "certificate.json").write_text(written(signed(content(folder), folder / "key.pem")))
    public = (folder / "key.pem.pub").read_text().strip()
    command = [sys.executable, "-I", "check.py", "certificate.json", public]
    good = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "epsilon 1.0" in good.stdout
    forged = (
        (tmp_path / "certificate.json").read_text().replace('"epsilon":1.0', '"epsilon":0.5', 1)
    )
    (tmp_path / "certificate.json").write_text(forged)
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode


def test_the_commands(folder: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "model.sfumato", tmp_path / "certificate.json"
    path.write_bytes((folder / "model.sfumato").read_bytes())
    words = ("--ledger", folder / "budget.db")
    keys = ("--key", tmp_path / "k.pem", "--new-key")
    done("certificate", path, *keys, "-o", out, *words)
    trusted = ("--key", tmp_path / "k.pem.pub")
    assert "signature holds" in done("verify", out, "--of", path, *trusted)
    assert "whether it is about the file" in run("verify", out, *trusted).stderr
    unchecked = run("verify", out, "--of", path)  # anybody may have signed
    assert unchecked.exit_code == 4
    assert "NOT checked: who signed" in unchecked.stderr
    assert "holds" not in unchecked.stdout
    assert run("verify", out, "--json").exit_code == 4
    out.write_bytes(out.read_bytes().replace(b"patients", b"patience"))
    result = run("verify", out)
    assert result.exit_code == 3
    assert "was changed" in result.stderr
    assert run("verify", tmp_path / "none.json").exit_code == 2
