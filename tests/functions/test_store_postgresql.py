"""The same promises with the answers on a real PostgreSQL server."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError, StoredModelError
from tests.accounting.test_ledger_postgresql import freeze, run_sql, server  # noqa: F401
from tests.functions.test_store import DAMAGE, _ask, begin, resume

pytestmark = pytest.mark.servers


@pytest.fixture
def address(server):  # noqa: F811 - the fixture
    run_sql(server, "DROP TABLE IF EXISTS sfumato_answers, sfumato_functions")
    return server


def test_answers_survive_and_names_are_used_once(address):
    f = begin(address)
    told = f(np.linspace(0, 1, 20))
    assert (resume(address)(np.linspace(0, 1, 20)) == told).all()
    with pytest.raises(InvalidInputError, match="already"):
        begin(address)
    with pytest.raises(StoredModelError, match="no release"):
        resume(address, "other")


def test_there_is_no_store_before_the_first_release(address):
    with pytest.raises(StoredModelError, match="There is no store"):
        resume(address)


def test_processes_that_ask_at_once_agree(address, start_child):
    begin(address)
    places = np.linspace(0, 1, 30)
    answers = multiprocessing.get_context("fork").SimpleQueue()
    children = [start_child(_ask, address, places[::step], answers) for step in (1, -1)]
    found = [answers.get() for _ in children]
    for child in children:
        child.join()
    final = resume(address)(places).tolist()
    assert sorted(found) == sorted([final, final[::-1]])


@pytest.mark.parametrize("kind", ["answer changed", "tail removed", "kernel changed"])
def test_a_changed_store_is_refused(address, kind):
    begin(address)([0.1, 0.5, 0.7, 0.9])
    run_sql(address, DAMAGE[kind])
    with pytest.raises(StoredModelError):
        resume(address)([0.3])


def test_a_lost_connection_changes_no_answer(address):
    f = begin(address)
    told = f([0.2])
    ours = "pid <> pg_backend_pid() AND datname = current_database()"
    run_sql(address, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")
    try:  # the next transaction opens another, where the end was told by then
        new = f([0.4])
    except StoredModelError:
        new = f([0.4])
    assert f([0.2]) == told
    assert resume(address)([0.4]) == new


def test_a_server_that_is_not_there():
    with pytest.raises(StoredModelError, match=r"store at postgresql:.* could not be read"):
        begin("postgresql://ann@127.0.0.1:1/postgres")


@pytest.fixture
def impatient(address):
    f = begin(address)
    f._book._database.timeout = 3
    return f


@pytest.mark.parametrize("ending", ["goes on", "dies"])
def test_a_server_that_freezes_in_the_commit(address, impatient, freeze, ending):  # noqa: F811
    told = impatient([0.2])
    frozen = freeze("COMMIT")
    with pytest.raises(StoredModelError, match=r"within 5 s. Unknown whether .* ask again"):
        impatient([0.4])
    if ending == "dies":
        os.kill(frozen[0], signal.SIGTERM)
    os.kill(frozen[0], signal.SIGCONT)
    new = impatient([0.4])  # drawn once for all, whatever became of the first
    assert impatient([0.2]) == told
    assert resume(address)([0.4]) == new


def test_a_server_that_freezes_before_the_commit(address, impatient, freeze):  # noqa: F811
    frozen = freeze("UPDATE")
    with pytest.raises(StoredModelError, match=r"did not answer within 5 s; nothing was answ"):
        impatient([0.4])
    os.kill(frozen[0], signal.SIGCONT)
    assert resume(address)([0.4]) == impatient([0.4])


def test_waiting_is_bounded_on_every_side(impatient):
    database = impatient._book._database
    shown = database.write(lambda transaction: transaction.run("SHOW statement_timeout"))
    assert shown == [("5s",)]
