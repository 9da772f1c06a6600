import contextlib
import json
import pickle
import sqlite3
from hashlib import sha256

import pytest

from sfumato.exceptions import (
    LedgerError,
    LedgerTamperedError,
    UnsupportedEventError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import (
    PureEvent,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def written(path):
    """A ledger of five charges and one of two, and a way to meddle with the file."""
    ledger = Ledger(path)
    rows = ledger.create("rows", epsilon=1.0)
    for hundredths in (1, 2, 3, 4, 5):
        rows.charge(PureEvent(hundredths / 100))
    ledger.create("others", epsilon=1.0).charge(PureEvent(0.1), PureEvent(0.2))
    return ledger


def meddle(path, *statements):
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER IF EXISTS sfumato_charges_no_update")
    connection.execute("DROP TRIGGER IF EXISTS sfumato_charges_no_delete")
    for statement in statements:
        assert connection.execute(statement).rowcount != 0
    connection.commit()
    connection.close()


def test_the_chain_is_what_the_proof_sheet_says(written, path):
    connection = sqlite3.connect(path)
    budget = connection.execute(
        "SELECT format, name, epsilon, delta, unit, relation, created, count, head "
        "FROM sfumato_budgets WHERE name = 'rows'"
    ).fetchone()
    lines = connection.execute(
        "SELECT dataset, position, time, event, hash FROM sfumato_charges "
        "WHERE dataset = 'rows' ORDER BY position"
    ).fetchall()
    connection.close()
    head = _sha(["sfumato ledger", *budget[:7]])
    for line in lines:
        head = _sha([head, *line[:4]])
        assert head == line[4]
    assert (len(lines), head) == budget[7:] == (5, written.dataset("rows").head())
    assert [json.loads(line[3])["epsilon"] for line in lines] == [0.01, 0.02, 0.03, 0.04, 0.05]


def _sha(fields):
    return sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()


def test_an_untouched_ledger_holds(written):
    result = written.verify()
    assert (set(result.heads), result.charges) == ({"rows", "others"}, 7)
    assert str(result) == "The chain is intact: 2 datasets, 7 charges."


@pytest.mark.parametrize(
    "verb", ["UPDATE sfumato_charges SET event = ''", "DELETE FROM sfumato_charges"]
)
def test_charges_are_append_only(written, path, verb):
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(verb)
    connection.close()
    assert written.verify().charges == 7


WHERE = "WHERE dataset = 'rows' AND position"
MEDDLINGS = {
    "an epsilon made smaller": (
        3,
        f"UPDATE sfumato_charges SET event = replace(event, '0.03', '0.01') {WHERE} = 3",
    ),
    "a time moved": (2, f"UPDATE sfumato_charges SET time = '1999' {WHERE} = 2"),
    "a hash replaced": (4, f"UPDATE sfumato_charges SET hash = previous {WHERE} = 4"),
    "a link replaced": (4, f"UPDATE sfumato_charges SET previous = hash {WHERE} = 4"),
    "a charge removed": (2, f"DELETE FROM sfumato_charges {WHERE} = 2"),
    "the first removed": (1, f"DELETE FROM sfumato_charges {WHERE} = 1"),
    "the tail removed": (3, f"DELETE FROM sfumato_charges {WHERE} > 3"),
    "all removed": (0, "DELETE FROM sfumato_charges WHERE dataset = 'rows'"),
    "a charge given away": (
        5,
        f"UPDATE sfumato_charges SET dataset = 'others', position = 3 {WHERE} = 5",
    ),
    "a line slipped in": (
        1,
        "INSERT INTO sfumato_charges SELECT dataset, 0, time, event, previous, hash "
        f"FROM sfumato_charges {WHERE} = 1",
    ),
    "a position of no number": (5, f"UPDATE sfumato_charges SET position = 'x' {WHERE} = 5"),
    "the budget raised": (0, "UPDATE sfumato_budgets SET epsilon = '9.0' WHERE name = 'rows'"),
    "the budget garbled": (0, "UPDATE sfumato_budgets SET epsilon = 'x' WHERE name = 'rows'"),
    "the relation changed": (0, "UPDATE sfumato_budgets SET relation = 'x' WHERE name = 'rows'"),
    "the count changed": (5, "UPDATE sfumato_budgets SET count = 4 WHERE name = 'rows'"),
    "the head changed": (5, "UPDATE sfumato_budgets SET head = genesis WHERE name = 'rows'"),
    "the budget removed": (0, "DELETE FROM sfumato_budgets WHERE name = 'rows'"),
}


@pytest.mark.parametrize("what", MEDDLINGS)
def test_meddling_is_found_and_placed(written, path, what):
    position, statement = MEDDLINGS[what]
    meddle(path, statement)
    dataset = "'(rows|others)'" if what == "a charge given away" else "'rows'"
    place = "(3|5)" if what == "a charge given away" else str(position)
    with pytest.raises(LedgerTamperedError, match=f"dataset {dataset}, position {place} "):
        written.verify()


@pytest.mark.parametrize("what", [w for w in MEDDLINGS if w != "the budget removed"])
@pytest.mark.usefixtures("written")
def test_a_tampered_budget_takes_no_charge(path, what):
    meddle(path, MEDDLINGS[what][1])
    with pytest.raises(LedgerTamperedError):
        Ledger(path).dataset("rows").charge(PureEvent(0.01))


def test_a_handle_that_knows_the_ledger_sees_a_cut_tail_and_a_raised_budget(written, path):
    rows, others = written.dataset("rows"), written.dataset("others")
    assert rows.spent() + others.spent() == pytest.approx(0.45)
    meddle(path, f"DELETE FROM sfumato_charges {WHERE} = 5")
    forged = written.dataset("others").total.__class__("others", 9.0, 0.0, "record", "replace_one")
    new = forged.record("2020-01-01T00:00:00.000000+00:00")
    meddle(
        path,
        f"UPDATE sfumato_budgets SET epsilon = '9.0', created = '{new['created']}', "
        f"genesis = '{new['genesis']}' WHERE name = 'others'",
    )
    for handle in (rows, others):
        with pytest.raises(LedgerTamperedError):
            handle.charge(PureEvent(0.01))


def test_a_handle_sees_the_tail_cut_beyond_what_it_knows(written, path):
    rows = written.dataset("rows")
    assert rows.statement().charges == 5
    Ledger(path).dataset("rows").charge(PureEvent(0.01), PureEvent(0.01))
    meddle(path, f"DELETE FROM sfumato_charges {WHERE} = 7")
    with pytest.raises(LedgerTamperedError, match="position 6 "):
        rows.charge(PureEvent(0.01))


def test_a_handle_does_not_accept_an_older_copy(written, path):
    rows = written.dataset("rows")
    copy = path.read_bytes()
    rows.charge(PureEvent(0.5))  # and nothing is read before the file is put back
    path.write_bytes(copy)
    assert written.verify().charges == 7  # consistent in itself
    for _ in range(2):
        with pytest.raises(LedgerTamperedError, match=r"position 6 .* was there before"):
            rows.charge(PureEvent(0.3))
        for look in (rows.statement, rows.events):
            with pytest.raises(LedgerTamperedError, match=r"position 6 .* was there before"):
                look()
    with pytest.raises(LedgerTamperedError, match="was there before"):
        written.dataset("rows")
    assert Ledger(path).dataset("rows").statement().charges == 5  # which knows nothing


def test_a_ledger_put_back_is_refused_whoever_asks_the_same_ledger(path):
    ledger = Ledger(path)
    ledger.create("rows", epsilon=1.0)
    copy, allowed = path.read_bytes(), 0
    for _ in range(3):
        with contextlib.suppress(LedgerTamperedError):
            ledger.dataset("rows").charge(PureEvent(1.0))
            allowed += 1
        path.write_bytes(copy)
    assert allowed == 1
    path.unlink()
    anew = ledger.create("rows", epsilon=1.0)  # asked for by name
    anew.charge(PureEvent(0.5))
    assert ledger.dataset("rows").spent() == 0.5


@pytest.mark.parametrize("made_by", ["create", "dataset", "pickle"])
def test_one_handle_on_a_ledger_put_back_after_every_charge_pays_once(path, made_by):
    ledger = Ledger(path)
    budget = ledger.create("rows", epsilon=1.0)
    budget = {
        "create": lambda: budget,
        "dataset": lambda: ledger.dataset("rows"),
        "pickle": lambda: pickle.loads(pickle.dumps(budget)),
    }[made_by]()
    copy, allowed = path.read_bytes(), 0
    for _ in range(5):
        with contextlib.suppress(LedgerTamperedError):
            budget.charge(PureEvent(1.0))
            allowed += 1
        path.write_bytes(copy)
    assert allowed == 1


@pytest.mark.parametrize("made_by", ["create", "dataset"])
def test_a_file_made_again_under_the_same_name_is_refused_by_a_live_handle(path, made_by):
    budget = Ledger(path).create("rows", epsilon=1.0)
    if made_by == "dataset":  # a handle that has seen no charge knows the budget all the same
        budget = Ledger(path).dataset("rows")
    else:
        budget.charge(PureEvent(0.9))
    path.unlink()
    again = Ledger(path).create("rows", epsilon=1.0)
    again.charge(PureEvent(0.2))
    for use in (lambda: budget.charge(PureEvent(0.3)), budget.spent, lambda: budget.total):
        with pytest.raises(LedgerTamperedError, match=r"position 0 .* was there before"):
            use()
    assert again.spent() == 0.2


def test_a_ledger_rewritten_as_a_whole_is_found_by_a_noted_head(written, path):
    early, late = written.verify().heads, {}
    written.dataset("rows").charge(PureEvent(0.1))
    late = {"rows": written.dataset("rows").head()}
    assert written.verify(early).charges == written.verify(late).charges == 8
    path.unlink()
    ledger = Ledger(path)
    ledger.create("rows", epsilon=1.0).charge(PureEvent(0.01))
    assert ledger.verify().charges == 1  # consistent in itself: only the notes can tell
    for noted in (late, {"others": early["others"]}):
        with pytest.raises(LedgerTamperedError, match=next(iter(noted))):
            ledger.verify(noted)


def test_a_budget_of_a_newer_format_is_refused(written, path):
    meddle(path, "UPDATE sfumato_budgets SET format = 2 WHERE name = 'rows'")
    for use in (written.verify, lambda: written.dataset("rows").charge(PureEvent(0.01))):
        with pytest.raises(LedgerError, match="newer Sfumato"):
            use()


def test_an_event_of_a_newer_version_is_refused_not_skipped(path):
    ledger = Ledger(path)
    budget = ledger.create("rows", epsilon=1.0)
    genesis, event = budget.head(), '{"epsilon":0.5,"kind":"next_year"}'
    seal = _sha([genesis, "rows", 1, "t", event])
    meddle(
        path,
        f"INSERT INTO sfumato_charges VALUES ('rows', 1, 't', '{event}', '{genesis}', '{seal}')",
        f"UPDATE sfumato_budgets SET count = 1, head = '{seal}'",
    )
    for use in (budget.spent, budget.events, lambda: budget.charge(PureEvent(0.1))):
        with pytest.raises(UnsupportedEventError, match="charge 1"):
            use()
