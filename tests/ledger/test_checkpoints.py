"""Checkpoints: a charge reads a few lines however long the chain is, and trusts no more."""

import contextlib
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from sfumato.exceptions import BudgetExceededError, LedgerTamperedError
from sfumato.ledger import chain as ledger_chain, store as ledger_store
from sfumato.ledger.chain import EVERY, MAX_LINES, Charge, encode_event
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.spending import Scale, Spending
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, PureEvent
from sfumato.privacy.losses import Losses


def event(i):
    """Different releases of three kinds."""
    size = 1 + (i % 97) / 100
    return (GaussianEvent(300 * size), LaplaceEvent(size / 300), PureEvent(size / 400))[i % 3]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def written(path):
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


def test_a_checkpoint_is_sealed_by_its_line(written, path):
    ((position, state),) = rows(path, "SELECT position, state FROM sfumato_checkpoints")
    lines = written.lines()
    assert position == 2 * EVERY
    assert [line.position for line in lines if line.seal] == [EVERY, 2 * EVERY]
    assert ledger_chain.sha256(state).hexdigest() == lines[position - 1].seal
    assert Ledger(path).verify().charges == len(lines) == 2 * EVERY + 5


def test_every_handle_finds_the_same_figures(written, path):
    fresh = Ledger(path).dataset("rows")
    assert fresh.statement() == written.statement()
    assert fresh._known.spending.to_bytes() == written._known.spending.to_bytes()
    anew = Spending.of(map(event, range(2 * EVERY + 5)), Scale.of(2.0, 1e-6))
    assert written.spent() == pytest.approx(anew.price(1e-6, 2.0), rel=1e-4)


def test_a_charge_reads_few_lines_and_composes_little(written, path, monkeypatch):
    """What makes the latency flat, counted: lines read, and convolutions made."""
    counts = {"lines": 0, "convolutions": 0}
    read, composed = ledger_store.charges, Losses.composed

    def counting_read(*args):
        found = read(*args)
        counts["lines"] += len(found)
        return found

    def counting_composed(*args):
        counts["convolutions"] += 1
        return composed(*args)

    monkeypatch.setattr(ledger_store, "charges", counting_read)
    monkeypatch.setattr(Losses, "composed", counting_composed)
    for length in (2 * EVERY + 5, 20 * EVERY + 5, 20 * EVERY + 31):
        while written.statement().charges < length:
            missing = length - written.statement().charges
            written.charge(*(event(i) for i in range(min(missing, 100))))
        counts.update(lines=0, convolutions=0)
        written.charge(event(7))
        assert counts["lines"] <= 1
        assert counts["convolutions"] <= 3
        counts.update(lines=0, convolutions=0)
        Ledger(path).dataset("rows").charge(event(8))
        assert counts["lines"] <= EVERY + 3
        assert counts["convolutions"] <= EVERY + 4


def test_a_handle_far_behind_begins_at_the_checkpoint(written, path, monkeypatch):
    behind = Ledger(path).dataset("rows")
    written.charge(*(event(i) for i in range(MAX_LINES + 50)))
    read, lines = ledger_store.charges, []
    monkeypatch.setattr(ledger_store, "charges", lambda *a: lines.append(read(*a)) or lines[-1])
    behind.charge(event(1))
    assert sum(map(len, lines)) <= EVERY
    assert behind.statement() == written.statement()


@pytest.mark.parametrize("far", [3, MAX_LINES + 50])
def test_a_handle_refuses_an_older_copy_also_behind_a_checkpoint(written, path, far):
    copy = path.read_bytes()
    written.charge(*(event(i) for i in range(far)))
    path.write_bytes(copy)
    Ledger(path).dataset("rows").charge(*(event(i) for i in range(far + MAX_LINES + 9)))
    with pytest.raises(LedgerTamperedError, match="was there before"):
        written.charge(event(1))


def test_a_changed_state_is_refused(written, path):
    del written
    ((state,),) = rows(path, "SELECT state FROM sfumato_checkpoints")
    other = state.replace(b'"epsilon":"', b'"epsilon":"0', 1)
    assert other != state
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE sfumato_checkpoints SET state = ?", (other,))
        connection.commit()
    for use in (Ledger(path).verify, lambda: Ledger(path).dataset("rows")):
        with pytest.raises(LedgerTamperedError, match=f"position {2 * EVERY} .*checkpoint"):
            use()


def test_an_older_state_or_none_costs_time_only(written, path):
    spent, length = written.spent(), written.statement().charges
    old = rows(path, "SELECT position, state FROM sfumato_checkpoints")
    written.charge(*(event(i) for i in range(EVERY)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE sfumato_checkpoints SET position = ?, state = ?", old[0])
        connection.commit()
    again = Ledger(path).dataset("rows")
    assert again.spent() == pytest.approx(written.spent(), rel=1e-6)
    assert again.spent() > spent
    run(path, "DELETE FROM sfumato_checkpoints")
    assert Ledger(path).dataset("rows").spent() == pytest.approx(written.spent(), rel=1e-6)
    run(path, "DROP TABLE sfumato_checkpoints")
    Ledger(path).dataset("rows").charge(*map(event, range(EVERY)))
    assert Ledger(path).verify().charges == length + 2 * EVERY
    assert rows(path, "SELECT position FROM sfumato_checkpoints")  # made again


def test_a_line_before_the_checkpoint_is_verified_and_buys_nothing(written, path):
    cheaper = (
        "UPDATE sfumato_charges SET event = replace(event, '0.00', '0.000') WHERE position = 2"
    )
    run(path, *ALLOW, cheaper)
    with pytest.raises(LedgerTamperedError, match="position 2 "):
        Ledger(path).verify()
    with pytest.raises(LedgerTamperedError, match="position 2 "):
        written.events()
    assert Ledger(path).dataset("rows").spent() == written.spent()  # the checkpoint has its cost


def test_a_line_after_the_checkpoint_is_refused(written, path):
    del written
    later = f"UPDATE sfumato_charges SET time = '1999' WHERE position = {2 * EVERY + 2}"
    run(path, *ALLOW, later)
    with pytest.raises(LedgerTamperedError, match=f"position {2 * EVERY + 2} "):
        Ledger(path).dataset("rows")


def test_a_false_checkpoint_at_the_end_of_a_true_chain_is_found_by_verify(written, path):
    """Who may write can append one that forgets the past; noted heads alone would not tell."""
    noted = {"rows": written.head()}
    nothing = Spending.none(Scale.of(2.0, 1e-6)).to_bytes()
    seal = ledger_chain.sha256(nothing).hexdigest()
    (line,) = written._known.next_lines(
        "rows", [encode_event(event(0))], ledger_chain.stamp(), seal
    )
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


@pytest.mark.parametrize("state", [b"", b"{}", b"[]\n1234", b'{"epsilon": "x"}'])
def test_a_sealed_state_that_is_rubbish_is_told_as_such(path, state):
    budget = Ledger(path).create("rows", epsilon=2.0, delta=1e-6)
    seal = ledger_chain.sha256(state).hexdigest()
    (line,) = budget._known.next_lines("rows", [encode_event(event(0))], ledger_chain.stamp(), seal)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO sfumato_charges VALUES (?, ?, ?, ?, ?, ?)",
            (line.dataset, line.position, line.time, line.event, line.previous, line.hash),
        )
        connection.execute("UPDATE sfumato_budgets SET count = 1, head = ?", (line.hash,))
        connection.execute("INSERT INTO sfumato_checkpoints VALUES ('rows', 1, ?)", (state,))
        connection.commit()
    for use in (Ledger(path).verify, lambda: Ledger(path).dataset("rows")):
        with pytest.raises(LedgerTamperedError, match="cannot be read"):
            use()


def _as_written_by_the_first_version(path, n_lines):
    """Lines without marks, and no table of checkpoints."""
    budget = Ledger(path).create("rows", epsilon=2.0, delta=1e-6)
    head, lines = budget.head(), []
    for i in range(n_lines):
        time = f"2025-01-01T00:00:00.{i // 2:06d}+00:00"  # two lines a charge
        lines.append(Charge.sealed("rows", i + 1, time, encode_event(event(i)), head))
        head = lines[-1].hash
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE sfumato_checkpoints")
        connection.executemany(
            "INSERT INTO sfumato_charges VALUES (?, ?, ?, ?, ?, ?)",
            [(x.dataset, x.position, x.time, x.event, x.previous, x.hash) for x in lines],
        )
        connection.execute("UPDATE sfumato_budgets SET count = ?, head = ?", (n_lines, head))
        connection.commit()


@pytest.mark.parametrize("n_lines", [0, 9, EVERY, MAX_LINES + 40])
def test_a_ledger_of_the_first_version_goes_on(path, n_lines):
    _as_written_by_the_first_version(path, n_lines)
    ledger = Ledger(path)
    budget = ledger.dataset("rows")
    truth = Spending.of(map(event, range(n_lines)), Scale.of(2.0, 1e-6)).price(1e-6, 2.0)
    assert budget.spent() == pytest.approx(truth, rel=1e-4)
    budget.charge(event(1))
    assert ledger.verify().charges == n_lines + 1
    assert Ledger(path).dataset("rows").statement() == budget.statement()
    with pytest.raises(BudgetExceededError):
        budget.charge(PureEvent(2.0))


def test_a_full_budget_stays_full_for_every_handle(path):
    budget = Ledger(path).create("rows", epsilon=0.5, delta=1e-6)
    done = 0
    with contextlib.suppress(BudgetExceededError):
        while done < 60:
            budget.charge(LaplaceEvent(0.02 + done * 1e-6))
            done += 1
    assert 1.5 * 25 < done < 60  # more than by adding up
    for handle in (budget, Ledger(path).dataset("rows")):
        assert 0.49 < handle.spent() <= 0.5
        with pytest.raises(BudgetExceededError):
            handle.charge(LaplaceEvent(0.02))
    assert Ledger(path).verify().charges == done
