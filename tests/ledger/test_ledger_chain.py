"""The chain of hashes and its checkpoints: what was changed, cut, put back or forged is found."""

from __future__ import annotations

import contextlib
import json
import pickle
import sqlite3
from contextlib import closing
from dataclasses import replace
from hashlib import sha256

import pytest

from sfumato.exceptions import LedgerTamperedError, UnsupportedEventError
from sfumato.ledger import chain as ledger_chain, store as ledger_store
from sfumato.ledger.chain import EVERY, encode_event
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.spending import Scale, Spending
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, PureEvent


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def written(path):
    """A ledger of five charges and one of two, and a way to meddle with the file."""
    ledger = Ledger(path)
    rows = ledger.create("rows", epsilon=1.0, delta=0.0)
    for hundredths in (1, 2, 3, 4, 5):
        rows.charge(PureEvent(hundredths / 100))
    ledger.create("others", epsilon=1.0, delta=0.0).charge(PureEvent(0.1), PureEvent(0.2))
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
    marks = [line.mark for line in written.dataset("rows").lines()]
    assert len({*filter(None, marks)}) == 5  # of five charges


def _sha(fields):
    return sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()


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


@pytest.mark.parametrize("made_by", ["create", "dataset", "pickle"])
def test_one_handle_on_a_ledger_put_back_after_every_charge_pays_once(path, made_by):
    ledger = Ledger(path)
    budget = ledger.create("rows", epsilon=1.0, delta=0.0)
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


def test_a_ledger_rewritten_as_a_whole_is_found_by_a_noted_head(written, path):
    early, late = written.verify().heads, {}
    written.dataset("rows").charge(PureEvent(0.1))
    late = {"rows": written.dataset("rows").head()}
    assert written.verify(early).charges == written.verify(late).charges == 8
    path.unlink()
    ledger = Ledger(path)
    ledger.create("rows", epsilon=1.0, delta=0.0).charge(PureEvent(0.01))
    assert ledger.verify().charges == 1  # consistent in itself: only the notes can tell
    for noted in (late, {"others": early["others"]}):
        with pytest.raises(LedgerTamperedError, match=next(iter(noted))):
            ledger.verify(noted)


def test_an_event_of_a_newer_version_is_refused_not_skipped(path):
    ledger = Ledger(path)
    budget = ledger.create("rows", epsilon=1.0, delta=0.0)
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


def event(i):
    """Different releases of three kinds."""
    size = 1 + (i % 97) / 100
    return (GaussianEvent(300 * size), LaplaceEvent(size / 300), PureEvent(size / 400))[i % 3]


@pytest.fixture
def many(path):
    """A budget with more than two checkpoints' worth of lines."""
    budget = Ledger(path).create("rows", epsilon=2.0, delta=1e-6)
    for start in range(0, 2 * EVERY, 8):
        budget.charge(*map(event, range(start, start + 8)))
    for i in range(2 * EVERY, 2 * EVERY + 5):
        budget.charge(event(i))
    return budget


def run(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def rows(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


ALLOW = "DROP TRIGGER sfumato_charges_no_update", "DROP TRIGGER sfumato_charges_no_delete"


def test_a_checkpoint_is_sealed_by_its_line(many, path):
    ((position, state),) = rows(path, "SELECT position, state FROM sfumato_checkpoints")
    lines = many.lines()
    assert position == 2 * EVERY
    assert [line.position for line in lines if line.seal] == [EVERY, 2 * EVERY]
    assert ledger_chain.sha256(state).hexdigest() == lines[position - 1].seal
    assert Ledger(path).verify().charges == len(lines) == 2 * EVERY + 5


def test_every_handle_finds_the_same_figures(many, path):
    fresh = Ledger(path).dataset("rows")
    assert fresh.statement() == many.statement()
    assert fresh._known.spending.to_bytes() == many._known.spending.to_bytes()
    anew = Spending.of(map(event, range(2 * EVERY + 5)), Scale.of(2.0, 1e-6))
    assert many.spent() == pytest.approx(anew.price(1e-6, 2.0), rel=1e-4)


def test_a_changed_state_is_refused(many, path):
    del many
    ((state,),) = rows(path, "SELECT state FROM sfumato_checkpoints")
    other = state.replace(b'"epsilon":"', b'"epsilon":"0', 1)
    assert other != state
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE sfumato_checkpoints SET state = ?", (other,))
        connection.commit()
    for use in (Ledger(path).verify, lambda: Ledger(path).dataset("rows")):
        with pytest.raises(LedgerTamperedError, match=f"position {2 * EVERY} .*checkpoint"):
            use()


def test_a_line_before_the_checkpoint_is_verified_and_buys_nothing(many, path):
    cheaper = (
        "UPDATE sfumato_charges SET event = replace(event, '0.00', '0.000') WHERE position = 2"
    )
    run(path, *ALLOW, cheaper)
    with pytest.raises(LedgerTamperedError, match="position 2 "):
        Ledger(path).verify()
    with pytest.raises(LedgerTamperedError, match="position 2 "):
        many.events()
    assert Ledger(path).dataset("rows").spent() == many.spent()  # the checkpoint has its cost


def test_a_false_checkpoint_at_the_end_of_a_true_chain_is_found_by_verify(many, path):
    """Who may write can append one that forgets the past; noted heads alone would not tell."""
    noted = {"rows": many.head()}
    nothing = Spending.none(Scale.of(2.0, 1e-6)).to_bytes()
    seal = ledger_chain.sha256(nothing).hexdigest()
    (line,) = many._known.next_lines("rows", [encode_event(event(0))], ledger_chain.stamp(), seal)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO sfumato_charges VALUES (?, ?, ?, ?, ?, ?)",
            (line.dataset, line.position, line.time, line.event, line.previous, line.hash),
        )
        connection.execute(
            "UPDATE sfumato_budgets SET count = ?, head = ?", (line.position, line.hash)
        )
        connection.execute(
            "UPDATE sfumato_checkpoints SET position = ?, state = ?", (line.position, nothing)
        )
        connection.commit()
    assert Ledger(path).dataset("rows").spent() == 0.0  # a new handle trusts what the chain seals
    with pytest.raises(LedgerTamperedError, match="does not contain the cost of its charges"):
        Ledger(path).verify(noted)


def forged(state):
    """States with the right sums that price later charges too low, or not at all."""
    thin = replace(state.losses, masses=state.losses.masses * 0.1)
    return {
        "few": replace(state, few={PureEvent(1e-9): 1}),
        "losses": replace(state, losses=thin),
        "nan": replace(state, losses=replace(state.losses, infinite=float("nan"))),
    }


@pytest.mark.parametrize("part", ["few", "losses", "nan"])
def test_a_checkpoint_with_true_sums_and_false_parts_is_found_by_verify(path, part):
    budget = Ledger(path).create("rows", epsilon=1.0, delta=1e-6)
    budget.charge(*[PureEvent(0.03)] * (EVERY - 1))
    known, one = budget._known, PureEvent(0.03)
    true = known.plus(Spending.of([one], known.scale)).spending
    state = forged(true)[part].to_bytes()
    seal = ledger_chain.sha256(state).hexdigest()
    lines = known.next_lines("rows", [encode_event(one)], ledger_chain.stamp(), seal)

    def write(ledger):
        ledger_store.append(ledger, lines)
        ledger_store.keep_checkpoint(ledger, "rows", EVERY, state)

    budget._database.write(write)
    with pytest.raises(LedgerTamperedError, match="checkpoint"):
        Ledger(path).verify()
