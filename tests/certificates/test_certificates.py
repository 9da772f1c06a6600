"""Certificates: what they say, who can check them, and that no change of them passes."""

from __future__ import annotations

import json
import math
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
import yaml

from sfumato import Bounds, Guarantee, Ledger, PrivateMoments, load, save
from sfumato.accounting import delta_from_mu, epsilon_spent, mu_from_budget
from sfumato.certificates import (
    CertificateError,
    certificate_of,
    embed,
    embedded_in,
    new_key,
    registry_yaml,
    signed,
    verified,
    written,
)
from sfumato.certificates.signing import schema
from sfumato.events import RepeatedEvent, SubsampledGaussianEvent
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.tables.files import TableFile, write_table
from tests.interfaces.running import done, run

ROOT = Path(__file__).parents[2]


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


def content(folder: Path, **options: Any) -> dict[str, Any]:
    budget = Ledger(folder / "budget.db").dataset("patients")
    return certificate_of(folder / "model.sfumato", budget=budget, **options)


def test_the_content_is_true_and_keeps_the_published_schema(folder: Path) -> None:
    key = b"k" * 32
    found = content(folder, data=folder / "key.pem.pub", data_key=key)
    certificate = signed(found, folder / "key.pem")
    jsonschema.validate(certificate, schema())
    jsonschema.Draft202012Validator.check_schema(schema())
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
            jsonschema.validate({**certificate, **wrong}, schema())


def test_a_fingerprint_of_data_needs_a_key(folder: Path) -> None:
    for key in (None, b"short"):
        with pytest.raises(InvalidInputError, match="secret"):
            content(folder, data=folder / "key.pem.pub", data_key=key)
    prints = [
        content(folder, data=folder / "key.pem.pub", data_key=key)["data"]["value"]
        for key in (b"a" * 32, b"b" * 32, b"a" * 32)
    ]
    assert prints[0] == prints[2] != prints[1]


def test_a_ledger_that_did_not_pay_is_refused(folder: Path) -> None:
    other = Ledger().create("others", epsilon=1.0)
    with pytest.raises(InvalidInputError, match="no charge"):
        certificate_of(folder / "model.sfumato", budget=other)


def test_a_thousand_random_edits_are_refused(folder: Path) -> None:
    text = written(signed(content(folder), folder / "key.pem")).encode()
    verified(text, file=folder / "model.sfumato")
    rng = np.random.default_rng(0)
    n_refused = 0
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
        if edited == text:
            n_refused += 1
            continue
        with pytest.raises(CertificateError):
            verified(edited)
        n_refused += 1
    assert n_refused == 1000


@pytest.mark.parametrize("name", ["public_key", "value"])
def test_a_space_within_a_signature_is_a_change(folder: Path, name: str) -> None:
    certificate = signed(content(folder), folder / "key.pem")
    digits = certificate["signature"][name]
    for other in (digits[:2] + " " + digits[2:], digits.upper()):
        certificate["signature"][name] = other
        with pytest.raises(CertificateError, match="changed"):
            verified(written(certificate))


def test_another_signer_and_another_file_are_refused(folder: Path, tmp_path: Path) -> None:
    public = new_key(tmp_path / "other.pem")
    assert (tmp_path / "other.pem").stat().st_mode & 0o077 == 0
    text = written(signed(content(folder), folder / "key.pem"))
    with pytest.raises(CertificateError, match="a different key"):
        verified(text, public_key=public)
    again = {**json.loads(text), "epsilon": 0.1}  # signed anew by somebody else
    with pytest.raises(CertificateError, match="states a different guarantee"):
        verified(written(signed(again, tmp_path / "other.pem")), file=folder / "model.sfumato")
    model = load(folder / "model.sfumato")
    model.means_ = model.means_ + 1
    save(model, tmp_path / "model.sfumato")
    with pytest.raises(CertificateError, match="other content"):
        verified(text, file=tmp_path / "model.sfumato")
    with pytest.raises(InvalidInputError, match="never replaced"):
        new_key(tmp_path / "other.pem")


def test_it_travels_inside_a_model(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.sfumato"
    path.write_bytes((folder / "model.sfumato").read_bytes())
    assert embedded_in(path) is None
    text = written(signed(content(folder), folder / "key.pem"))
    embed(text, path)
    assert embedded_in(path) == text
    verified(embedded_in(path) or "", file=path)
    np.testing.assert_array_equal(load(path).means_, load(folder / "model.sfumato").means_)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv"])
def test_it_travels_with_a_table(folder: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    guarantee = load(folder / "model.sfumato").guarantee_.to_dict()
    table = pa.table({"age": [1, 2, None], "town": ["a", "b", "c"]})
    write_table(table, path, {"class": "Fabricator", "guarantee": guarantee})
    text = written(signed(certificate_of(path), folder / "key.pem"))
    embed(text, path)
    verified(embedded_in(path) or "", file=path)
    assert TableFile.sniffed(path).read().num_rows == 3
    changed = pa.table({"age": [1, 2, 4], "town": ["a", "b", "c"]})
    write_table(changed, path, {"class": "Fabricator", "guarantee": guarantee, "certificate": text})
    with pytest.raises(CertificateError, match="other content"):
        verified(embedded_in(path) or "", file=path)


# What opendp/deployments-registry-data asks for, in our words: sections, their keys, their words.
SECTIONS = {
    "basic": {"name", "data_curators", "intended_use", "data_product_type", "data_product_region"}
    | {"description", "publication_date", "data_product_sector"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters"}
    | {"privacy_parameters_details"},
    "deployment_model": {"model_name", "release_type", "release_type_details", "data_source_type"}
    | {"access_type"},
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"registry_authors", "notes"},
}


def test_the_registry_gets_its_sections(folder: Path) -> None:
    text = registry_yaml(
        signed(content(folder), folder / "key.pem"),
        name='Means: "all" #1',
        curator="Clinic",
        region="EU",
        author="Ada",
        sector="Healthcare",
    )
    record = yaml.safe_load(text)
    assert set(record) == {"url_slug", "status", "tier", "deployment"}
    assert (record["status"], record["tier"]) == ("Draft", 3)
    deployment = record["deployment"]
    assert {name: set(part) for name, part in deployment.items()} == SECTIONS
    assert deployment["basic"]["name"] == 'Means: "all" #1'
    assert isinstance(deployment["basic"]["publication_date"], str)
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(InvalidInputError, match="sector"):
        registry_yaml({}, name="a", curator="b", region="c", author="d", sector="Space")


def test_the_registry_gets_what_its_schema_asks(folder: Path, tmp_path: Path) -> None:
    """Their schema as of July 2026, without its descriptions; their site wants its order too."""
    asked = json.loads((Path(__file__).parent / "deployments-schema.json").read_text())
    checker = jsonschema.Draft7Validator(
        asked, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER
    )
    budget, guarantee = foreign(folder)
    (tmp_path / "net.pt").write_bytes(b"weights")
    other = certificate_of(tmp_path / "net.pt", budget=budget, guarantee=guarantee)
    for found in (content(folder), other):
        text = registry_yaml(
            signed(found, folder / "key.pem"), name="x", curator="y", region="EU", author="z"
        )
        record = yaml.safe_load(text)
        assert not [error.message for error in checker.iter_errors(record)]
        assert _names(record) == [name for name in _names(asked) if name in _names(record)]
        assert "|" not in text
        assert ">" not in text
    record["deployment"]["basic"]["publication_date"] = "1/1/2026"
    record["tier"] = 4
    assert len(list(checker.iter_errors(record))) == 2


def _names(record: dict[str, Any], place: str = "") -> list[str]:
    """List the places of a record, or of a schema, in their order."""
    inside = record.get("properties", record) if "type" in record else record
    found = []
    for name, each in inside.items():
        found.append(f"{place}/{name}")
        if isinstance(each, dict):
            found += _names(each, f"{place}/{name}")
    return found


def foreign(folder: Path) -> tuple[Any, Guarantee]:
    """Charge a run of another program."""
    event = RepeatedEvent(SubsampledGaussianEvent(2.0, 0.01), 100)
    words = {"unit": "record", "relation": "add_or_remove_one"}
    is_new = not (folder / "others.db").exists()
    ledger = Ledger(folder / "others.db")
    if is_new:
        ledger.create("rows", epsilon=2.0, delta=1e-5, **words)
        ledger.dataset("rows").charge(event, **words)
    epsilon = epsilon_spent([event], 1e-5, Relation.ADD_OR_REMOVE_ONE)
    return ledger.dataset("rows"), Guarantee(epsilon=epsilon, delta=1e-5, events=(event,), **words)


def test_a_file_of_another_program_is_certified_on_a_condition(
    folder: Path, tmp_path: Path
) -> None:
    budget, guarantee = foreign(folder)
    file = tmp_path / "net.pt"
    file.write_bytes(b"weights")
    found = signed(certificate_of(file, budget=budget, guarantee=guarantee), folder / "key.pem")
    jsonschema.validate(found, schema())
    assert (found["status"], found["subject"]["kind"]) == ("conditional", "file")
    assert "drew their noise" in found["conditions"][0]
    assert verified(written(found), file=file) == found
    file.write_bytes(b"weightz")
    with pytest.raises(CertificateError, match="other content"):
        verified(written(found), file=file)
    less = replace(guarantee, epsilon=guarantee.epsilon / 2)  # type: ignore[operator]
    with pytest.raises(InvalidInputError, match="cost"):  # a smaller epsilon than was paid
        certificate_of(file, budget=budget, guarantee=less)
    other = RepeatedEvent(SubsampledGaussianEvent(2.0, 0.01), 99)
    unpaid = replace(guarantee, events=(other,))
    with pytest.raises(InvalidInputError, match="no charge"):
        certificate_of(file, budget=budget, guarantee=unpaid)
    with pytest.raises(InvalidInputError, match="budget"):
        certificate_of(file, guarantee=guarantee)


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
    words = ("--ledger", folder / "budget.db", "--registry", tmp_path / "r.yaml")
    keys = ("--key", tmp_path / "k.pem", "--new-key")
    done("certificate", path, *keys, "-o", out, "--embed", *words)
    trusted = ("--key", tmp_path / "k.pem.pub")
    assert "signature holds" in done("verify", out, "--of", path, *trusted)
    assert "Ada" in done("verify", path, *trusted)
    assert yaml.safe_load((tmp_path / "r.yaml").read_text())["tier"] == 3
    out.write_bytes(out.read_bytes().replace(b"patients", b"patience"))
    result = run("verify", out)
    assert result.exit_code == 3
    assert "was changed" in result.stderr
    assert run("verify", tmp_path / "none.json").exit_code == 2
    assert math.isclose(epsilon_spent(load(path).guarantee_.events, 1e-5), 1.0, rel_tol=1e-5)
