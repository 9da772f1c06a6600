"""Files that version 0.1.0 wrote are read, and `sfumato migrate` brings them to today's form.

`version_0_1_0/files.zip` was written by the code of that version (`version_0_1_0/make.txt`), with
the answers that it gave.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato import Ledger, load
from sfumato.events import GaussianEvent
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerTamperedError,
    StoredModelError,
)
from sfumato.functions import OnlineFunction
from sfumato.interfaces.cli.main import app
from sfumato.jobs.migrating import BACKUP, migrate_file
from sfumato.storage.container import opened, write_members
from sfumato.tables.schema import LAYOUT, TableBounds

ARCHIVE = Path(__file__).parent / "version_0_1_0" / "files.zip"
with zipfile.ZipFile(ARCHIVE) as archive:
    EXPECTED: dict[str, Any] = json.loads(archive.read("expected.json"))
    MODELS = sorted(name for name in archive.namelist() if name.endswith(".sfumato"))
REFUSED = "printed.sfumato"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_models_answer_as_they_did_before_and_after_migration(old: Path) -> None:
    points = np.array(EXPECTED["points"])
    for name in MODELS:
        if name == REFUSED:
            continue
        before = load(old / name)
        found = migrate_file(old / name)
        after = load(old / name)
        assert found.kind == "model"
        assert not migrate_file(old / name).changed, name
        assert getattr(before, "guarantee_", None) == getattr(after, "guarantee_", None)
        stated = EXPECTED["models"].get(name.removesuffix(".sfumato"))
        if stated is None or stated["verb"] == "sfumato predict":
            continue
        at = np.resize(points, (5, after.n_features_in_))
        for model in (before, after):
            answers = np.asarray(getattr(model, stated["verb"])(at))
            # to the bit on the machine that wrote them; another BLAS may round differently
            if answers.dtype.kind == "f":
                np.testing.assert_allclose(answers, stated["answers"], rtol=1e-9, atol=1e-12)
            else:
                np.testing.assert_array_equal(answers, stated["answers"])


def test_a_migrated_model_states_the_epsilon_that_0_1_0_stated(old: Path) -> None:
    """The sentence beside the figures was corrected; the figures stay."""
    for name in MODELS:
        with opened(old / name) as members:
            before = members.header()["guarantee"]
        if name == REFUSED or before is None:
            continue
        migrate_file(old / name)
        with opened(old / name) as members:
            after = members.header()["guarantee"]
        for figure in ("epsilon", "delta", "unit", "relation", "status", "events"):
            assert after[figure] == before[figure], (name, figure)


@pytest.mark.parametrize("model", ["gaussian", "linear"])
def test_models_of_tables_predict_as_they_did(old: Path, model: str) -> None:
    path, labels = old / f"table-{model}.sfumato", old / "labels.csv"
    for _ in range(2):
        assert run("predict", path, old / "people.csv", "-o", labels, "--force").exit_code == 0
        assert labels.read_text() == EXPECTED["models"][path.stem]["answers"]
        migrate_file(path)


def test_fabricators_make_rows_of_the_same_tables(old: Path) -> None:
    table, labels = load(old / "table-fabricator.sfumato").sample(20)
    assert table.column_names == ["age", "group"]
    assert set(table["group"].to_pylist()) <= {"a", "b", "c"}
    assert set(labels) <= {"no", "yes"}
    fabricator = load(old / "fabricator.sfumato")
    assert (fabricator.n_components, fabricator.hull_components) == (50, 3)
    rows, labels = fabricator.sample(20)
    assert rows.shape == (20, 4)
    assert set(labels) <= {0, 1, 2}
    rows, _ = load(old / "fabricator-of-entries.sfumato").fabricate()
    assert rows.shape == (60, 4)


def rewritten(path: Path, **parameters: Any) -> Path:
    """Give the file of 0.1.0 with other parameters, as that version would have written it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != "SHA256SUMS"}
    header = json.loads(members["header.json"])
    assert parameters.keys() <= header["model"]["parameters"].keys()
    header["model"]["parameters"] |= parameters
    with path.open("wb") as file:
        write_members(file, members | {"header.json": json.dumps(header).encode()})
    return path


def test_hulls_of_drawn_rows_alone_are_those_without_smoothing(old: Path) -> None:
    assert load(rewritten(old / "hulls.sfumato", fabricate=True)).n_smoothing is None
    assert load(rewritten(old / "hulls.sfumato", fabricate=False)).n_smoothing == 0


@pytest.mark.parametrize("name", ["hulls.sfumato", "fabricator.sfumato"])
def test_a_ratio_of_smoothing_is_refused_and_the_file_is_left(old: Path, name: str) -> None:
    before = rewritten(old / name, smoothing_ratio=0.5).read_bytes()
    with pytest.raises(StoredModelError, match="'smoothing_ratio', which is gone"):
        migrate_file(old / name)
    assert (old / name).read_bytes() == before


def test_a_model_of_a_printed_mechanism_is_refused_and_left_as_it_is(old: Path) -> None:
    before = (old / REFUSED).read_bytes()
    with pytest.raises(StoredModelError, match=r"sfumato\.papers"):
        migrate_file(old / REFUSED)
    assert (old / REFUSED).read_bytes() == before
    assert not (old / (REFUSED + BACKUP)).exists()


def test_charges_keep_their_price(old: Path) -> None:
    """No dataset is cheaper than 0.1.0 said it was, but for the last digits of the accountant."""
    path = old / "budget.db"
    before = path.read_bytes()
    found = migrate_file(path)
    assert (found.kind, found.changed) == ("ledger", False)
    assert path.read_bytes() == before
    ledger = Ledger(path)
    assert ledger.datasets() == sorted(EXPECTED["ledger"])
    for name, stated in EXPECTED["ledger"].items():
        now = ledger.dataset(name).statement()
        assert (now.charges, now.head) == (stated["charges"], stated["head"])
        assert now.spent >= stated["spent"] * (1 - 1e-9)
        assert now.spent == pytest.approx(stated["spent"], rel=1e-6)


def test_a_ledger_of_0_1_0_is_charged_on(old: Path) -> None:
    handle = Ledger(old / "budget.db").dataset("many")
    before = handle.spent()
    for _ in range(3):
        handle.charge(GaussianEvent(30.0))
    assert handle.spent() > before
    with pytest.raises(BudgetExceededError):
        handle.charge(GaussianEvent(0.1))
    assert Ledger(old / "budget.db").verify(
        {name: stated["head"] for name, stated in EXPECTED["ledger"].items()}
    )


def test_a_changed_charge_is_found(old: Path) -> None:
    path = old / "budget.db"
    data = path.read_bytes()
    assert b'"noise_multiplier":5.0' in data
    path.write_bytes(data.replace(b'"noise_multiplier":5.0', b'"noise_multiplier":9.0'))
    with pytest.raises(LedgerTamperedError):
        migrate_file(path)
    assert run("migrate", path).exit_code == 3


def test_stored_functions_answer_as_they_did(old: Path) -> None:
    path = old / "answers.db"
    found = migrate_file(path)
    assert found.kind == "store of functions"
    assert found.facts == ("'ages' has 2 answers", "'plain' has 3 answers")
    asked = old / "again.csv"
    words = ("query", path, "--name", "ages", "--points", old / "points.csv", "-o", asked)
    assert run(*words).exit_code == 0
    assert asked.read_text() == EXPECTED["store"]["ages"]
    plain = EXPECTED["store"]["plain"]
    function = OnlineFunction.resume(lambda rows: rows[:, 0], store=path, name="plain")
    np.testing.assert_array_equal(function(plain["points"]), plain["answers"])


@pytest.mark.parametrize("name", ["bounds.toml", "proposed.toml"])
def test_bounds_keep_their_facts_and_comments(old: Path, name: str) -> None:
    path = old / name
    before, text = TableBounds.read(path), path.read_text()
    found = migrate_file(path)
    assert found.changed
    assert TableBounds.read(path) == before
    assert path.read_text() == text.replace("version = 1", f"version = {LAYOUT}")
    assert Path(found.backup or "").read_text() == text
    assert not migrate_file(path).changed


def test_one_command_for_all_kinds(old: Path) -> None:
    files = [old / name for name in ("linear.sfumato", "bounds.toml", "budget.db", "answers.db")]
    first = run("migrate", *files)
    assert first.exit_code == 0
    lines = [line for line in first.stdout.splitlines() if not line.startswith(" ")]
    assert [line.count("rewritten") for line in lines] == [1, 1, 0, 0]
    assert "'pure' has spent epsilon 0.874926 of 8" in first.stdout
    again = json.loads(run("migrate", *files, "--json").stdout)
    assert [each["changed"] for each in again] == [False] * 4


def test_what_is_none_of_the_four_is_refused(old: Path) -> None:
    for name, hint in (
        ("people.csv", "not a file that Sfumato writes"),
        ("nothing.db", "cannot be read"),
    ):
        with pytest.raises(InvalidInputError, match=hint):
            migrate_file(old / name)
    assert run("migrate", old / "people.csv").exit_code == 2


def test_an_earlier_copy_is_never_overwritten(old: Path) -> None:
    path = old / "bounds.toml"
    migrate_file(path)
    shutil.copy(old / "proposed.toml", path)
    with pytest.raises(InvalidInputError, match="earlier copy"):
        migrate_file(path)
    assert "version = 1" in path.read_text()
