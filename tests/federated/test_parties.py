"""What a party keeps and is configured by: releases made once, and its own file."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from sfumato import Ledger
from sfumato.exceptions import FederationError
from sfumato.federated import read_party
from sfumato.federated.messages import ReleaseStore, Reply, Request
from sfumato.tables import TableEncoder
from sfumato.tables.schema import TableBounds
from tests.federated.federations import hulls, write_party

ASKED = Request("task", "hulls.fit", {"serve": "models"}, {"a": np.arange(3.0)})


def fresh() -> Reply:
    return Reply("a", {"n": 1}, {"noise": np.random.default_rng().normal(size=4)})


def test_a_retry_gets_the_stored_release(tmp_path: Path) -> None:
    first = ReleaseStore(tmp_path).release_once(ASKED, fresh)
    again = ReleaseStore(tmp_path).release_once(ASKED, fresh)
    np.testing.assert_array_equal(first.arrays["noise"], again.arrays["noise"])
    assert again.facts == first.facts


@pytest.mark.parametrize(
    "changed",
    [
        Request("task", "hulls.fit", {"serve": "distances"}, ASKED.arrays),
        Request("task", "hulls.fit", ASKED.settings, {"a": np.arange(3.0) + 1e-9}),
        Request("task", "hulls.fit", ASKED.settings, {"a": np.arange(3)}),
        Request("task", "hulls.fit", ASKED.settings, {"b": np.arange(3.0)}),
    ],
)
def test_other_settings_under_the_same_name_are_refused(tmp_path: Path, changed: Request) -> None:
    store = ReleaseStore(tmp_path)
    store.release_once(ASKED, fresh)
    with pytest.raises(FederationError, match="different settings"):
        store.release_once(changed, fresh)


def test_a_damaged_release_is_refused_and_not_made_again(tmp_path: Path) -> None:
    store = ReleaseStore(tmp_path)
    store.release_once(ASKED, fresh)
    (path,) = tmp_path.glob("*.release")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=60).tolist():
        damaged = bytearray(whole[:place]) if place % 2 else bytearray(whole)
        if place < len(damaged):
            damaged[place] ^= 0xA5
        path.write_bytes(damaged)
        with pytest.raises(FederationError, match=r"is damaged|different settings"):
            store.release_once(ASKED, fresh)
        assert path.read_bytes() == damaged


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "store"
    ReleaseStore(inside).release_once(Request("../../evil", "x/../y"), fresh)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def _ask_in_process(folder: str, queue: object) -> None:
    queue.put(ReleaseStore(folder).release_once(ASKED, fresh).arrays["noise"].tolist())


def test_processes_that_ask_at_once_get_the_same_release(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [
        context.Process(target=_ask_in_process, args=(str(tmp_path), queue)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    answers = [queue.get(timeout=900) for _ in workers]
    for worker in workers:
        worker.join()
    assert answers[0] == answers[1] == answers[2]


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
    with pytest.raises(FederationError, match=r"at most 0\.5"):
        party.terms._require(
            "a", bounds=hulls().bounds, unit="record", relation="replace_one", epsilon=0.6
        )


def table_party(folder: Path, confirmed: str = "true") -> Path:
    (folder / "rows.csv").write_text(TABLE)
    (folder / "bounds.toml").write_text(BOUNDS.format(confirmed=confirmed))
    TableBounds.read(folder / "bounds.toml", sealed=False).write(folder / "bounds.toml")
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
