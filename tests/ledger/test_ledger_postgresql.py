"""The same promises on a real PostgreSQL server, private to this module and on loopback only."""

import contextlib
import multiprocessing
import os
import pickle
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from sfumato.core.databases import Transaction
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerError,
    LedgerTamperedError,
    LedgerUncertainError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import LaplaceEvent, PureEvent

psycopg = pytest.importorskip("psycopg", reason="needs the package psycopg")

pytestmark = pytest.mark.servers
CENT = PureEvent(0.01)


def _binaries():
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = shutil.which("initdb") or (installed[-1] if installed else None)
    return None if found is None else Path(found).resolve().parent


def _unprivileged():
    """PostgreSQL refuses to run as root; pick somebody it accepts."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@pytest.fixture(scope="module")
def server():
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    folder, user = Path(tempfile.mkdtemp(prefix="sfumato-postgresql-")), _unprivileged()
    if user is not None:
        shutil.chown(folder, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    as_user = {"user": user, "cwd": folder, "stdout": subprocess.DEVNULL}
    subprocess.run(
        [binaries / "initdb", "-D", folder / "data", "-U", "ann", "-A", "trust", "--no-sync"],
        check=True,
        **as_user,
    )
    options = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        [binaries / "postgres", "-D", folder / "data", "-k", str(folder), *options],
        stderr=subprocess.DEVNULL,
        **as_user,
    )
    address = f"postgresql://ann@127.0.0.1:{port}/postgres"
    try:
        _wait_for(address)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(300)
        shutil.rmtree(folder)


def _wait_for(address):
    for _ in range(3000):
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(address).close()
            return
        time.sleep(0.1)
    raise RuntimeError("PostgreSQL did not start")


def run_sql(address, *statements):
    with psycopg.connect(address) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def address(server):
    """The server without a ledger."""
    run_sql(server, "DROP TABLE IF EXISTS sfumato_charges, sfumato_budgets, sfumato_checkpoints")
    return server


def test_charges_are_kept_exactly(address):
    budget = Ledger(address).create("patients ü", epsilon=1.0, delta=0.0)
    budget.charge(PureEvent(0.1))
    budget.charge(PureEvent(0.9))
    again = pickle.loads(pickle.dumps(budget))
    assert again == budget
    assert (again.spent(), again.left()) == (1.0, 0.0)
    assert again.events() == (PureEvent(0.1), PureEvent(0.9))
    with pytest.raises(BudgetExceededError):
        again.charge(CENT)
    with pytest.raises(InvalidInputError, match="never changed"):
        Ledger(address).create("patients ü", epsilon=2.0, delta=0.0)


def _attempt(budget, times, answers):
    allowed = 0
    try:
        for _ in range(times):
            with contextlib.suppress(BudgetExceededError):
                budget.charge(CENT)
                allowed += 1
        answers.put(allowed)
    except Exception as error:
        answers.put(error)


def test_eight_processes_share_a_budget_exactly(address, start_child):
    # holds 100, and 240 are asked for
    budget = Ledger(address).create("rows", epsilon=1.0, delta=0.0)
    answers = multiprocessing.get_context("fork").SimpleQueue()
    children = [start_child(_attempt, budget, 30, answers) for _ in range(8)]
    allowed = [answers.get() for _ in children]
    for child in children:
        child.join()
    assert all(isinstance(count, int) for count in allowed), allowed
    assert sum(allowed) == 100
    assert (budget.spent(), Ledger(address).verify().charges) == (1.0, 100)


def _charge_then_die(budget):
    budget.charge(CENT)
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_between_charge_and_draw(address, start_child):
    budget = Ledger(address).create("rows", epsilon=1.0, delta=0.0)
    child = start_child(_charge_then_die, budget)
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert budget.events() == (CENT,)
    assert Ledger(address).verify().charges == 1


@pytest.mark.parametrize(
    "verb",
    [
        "UPDATE sfumato_charges SET event = ''",
        "DELETE FROM sfumato_charges",
        "TRUNCATE sfumato_charges",
    ],
)
def test_charges_are_append_only(address, verb):
    Ledger(address).create("rows", epsilon=1.0, delta=0.0).charge(CENT)
    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        run_sql(address, verb)


def test_a_user_who_may_only_read(address):
    Ledger(address).create("rows", epsilon=1.0, delta=0.0).charge(CENT)
    run_sql(
        address,
        "DO 'BEGIN CREATE ROLE auditor LOGIN; EXCEPTION WHEN duplicate_object THEN END'",
        "GRANT SELECT ON sfumato_budgets, sfumato_charges, sfumato_checkpoints TO auditor",
    )
    ledger = Ledger(address.replace("ann@", "auditor@"))
    assert ledger.verify().charges == 1
    assert ledger.dataset("rows").spent() == 0.01
    with pytest.raises(LedgerError, match="read-only"):
        ledger.dataset("rows").charge(CENT)


def _charged(address, times):
    budget = Ledger(address).create("rows", epsilon=2.0, delta=1e-6)
    for i in range(times):
        budget.charge(*[LaplaceEvent(0.001 + 1e-5 * (8 * i + j)) for j in range(8)])
    return budget


def test_checkpoints_are_kept_and_sealed(address):
    budget = _charged(address, 9)
    fresh = Ledger(address).dataset("rows")
    assert (fresh._known.count, fresh._known.since) == (72, 8)
    assert fresh.statement() == budget.statement()
    assert Ledger(address).verify().charges == 72
    run_sql(address, "UPDATE sfumato_checkpoints SET state = state || 'x'::bytea")
    for use in (Ledger(address).verify, lambda: Ledger(address).dataset("rows")):
        with pytest.raises(LedgerTamperedError, match=r"position 64 .*checkpoint"):
            use()


@pytest.mark.parametrize(
    ("word", "error"), [("UPDATE", LedgerError), ("COMMIT", LedgerUncertainError)]
)
def test_a_connection_that_breaks(address, monkeypatch, word, error):
    budget = Ledger(address).create("rows", epsilon=1.0, delta=0.0)
    run, broken = Transaction.run, []

    def break_first(transaction, statement, values=()):
        if statement.startswith(word) and not broken:
            broken.append(os.dup(transaction._connection.fileno()))
            with socket.socket(fileno=broken[0]) as connection:
                connection.shutdown(socket.SHUT_RDWR)
        return run(transaction, statement, values)

    monkeypatch.setattr(Transaction, "run", break_first)
    with pytest.raises(LedgerError) as caught:
        budget.charge(PureEvent(0.6))
    assert broken
    assert type(caught.value) is error
    receipt = budget.charge(PureEvent(0.6))  # idempotent: paid once, whatever became of the first
    assert receipt.unused() == (PureEvent(0.6),)
    assert (budget.spent(), len(budget.events())) == (0.6, 1)
    with pytest.raises(BudgetExceededError):
        budget.charge(PureEvent(0.6))


def test_waiting_is_bounded_on_every_side(address):
    ledger = Ledger(address, timeout=3)

    def settings(transaction):
        names = ("statement_timeout", "lock_timeout")
        return {name: transaction.run(f"SHOW {name}")[0][0] for name in names}

    for use in (ledger._database.write, ledger._database.read):
        assert use(settings) == {"statement_timeout": "5s", "lock_timeout": "3s"}
    with contextlib.closing(ledger._database._connected()) as connection:
        options = connection.info.get_parameters()
    assert (options["tcp_user_timeout"], options["keepalives_count"]) == ("5000", "3")


def test_a_fork_inherits_no_connection_that_is_kept(address, in_child):
    ledger = Ledger(address, keep_open=True)
    budget = ledger.create("rows", epsilon=1.0, delta=0.0)
    assert len(ledger._database._kept) == 1
    assert in_child(lambda: len(ledger._database._kept)) == "0"
    budget.charge(CENT)
    assert ledger.verify().charges == 1
    ledger._database.close()
