"""The file of a party: read, checked, and obeyed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfumato import Ledger
from sfumato.exceptions import FederationError, MissingBoundsError
from sfumato.federated import HullTask, read_party
from sfumato.federated.party_file import party_of_context
from sfumato.tables import TableEncoder
from sfumato.tables.schema import TableBounds
from tests.federated.federations import hulls, write_party

TABLE = "age,kind\n" + "".join(f"{20 + i % 50},{'ab'[i % 2]}\n" for i in range(60))
BOUNDS = """\
version = 2
confirmed = {confirmed}
[target]
column = "kind"
type = "string"
labels = ["a", "b"]
[columns.age]
type = "int64"
lower = 0
upper = 120
"""


def test_rows_rights_and_ledger_come_from_the_file(tmp_path: Path, digits) -> None:
    X, y, _, _ = digits
    Ledger(tmp_path / "ledger.db").create("rows", epsilon=1.0, delta=1e-5)
    path = write_party(tmp_path, 0, X, y, ledger="ledger.db", dataset="rows", max_epsilon=0.5)
    party = read_party(path)
    assert (party.name, party.terms.max_epsilon, party.ledger.name) == ("hospital-0", 0.5, "rows")
    np.testing.assert_array_equal(party.load()[0], X)
    assert party.store.folder == tmp_path / "releases-0"
    assert "at most 0.5" in party.answer(HullTask("t", hulls()).request()).refusal


def table_party(folder: Path, confirmed: str = "true") -> Path:
    (folder / "rows.csv").write_text(TABLE)
    (folder / "bounds.toml").write_text(BOUNDS.format(confirmed=confirmed))
    path = folder / "party.toml"
    path.write_text(
        'name = "a"\ndata = "rows.csv"\nstore = "s"\nbounds = "bounds.toml"\ntarget = "kind"\n'
        'ledger = "none"\nmax_epsilon = 1.0\nmax_delta = 1e-6\n'
    )
    return path


def test_a_table_is_read_by_its_bounds(tmp_path: Path) -> None:
    party = read_party(table_party(tmp_path))
    rows, labels = party.load()
    assert rows.shape == (60, 1)
    assert set(labels) == {"a", "b"}
    known = TableBounds.read(tmp_path / "bounds.toml")
    assert party.terms.bounds == TableEncoder(known).row_bounds()


def test_bounds_must_be_confirmed(tmp_path: Path) -> None:
    with pytest.raises(MissingBoundsError):
        read_party(table_party(tmp_path, confirmed="false"))


@pytest.mark.parametrize(
    "text",
    ["", "name = ", 'name = "a"\ndata = "x.npz"\n', 'name="a"\nevil=1\n'],
)
def test_a_file_that_says_too_little_or_too_much_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "party.toml").write_text(text)
    with pytest.raises(FederationError, match="party's file"):
        read_party(tmp_path / "party.toml")


def test_a_table_without_bounds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "party.toml").write_text(
        'name = "a"\ndata = "rows.csv"\nstore = "s"\nledger = "none"\nbounds = "none"\n'
        "max_epsilon = 1.0\nmax_delta = 1e-6\n"
    )
    with pytest.raises(FederationError, match="bounds"):
        read_party(tmp_path / "party.toml")


def test_a_node_names_its_own_party(tmp_path: Path, digits) -> None:
    X, y, _, _ = digits
    for number in range(2):
        write_party(tmp_path, number, X, y)
    run = {"parties-folder": str(tmp_path)}
    own = {"party": str(tmp_path / "party-1.toml"), "partition-id": 0}
    assert party_of_context(own, run).name == "hospital-1"  # the run cannot choose another one
    assert party_of_context({"partition-id": 0}, run).name == "hospital-0"
    with pytest.raises(FederationError):
        party_of_context({"partition-id": 0}, {})
