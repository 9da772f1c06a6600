"""The store of answers: damage is seen, deaths and rivals change no answer."""

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import threading
import time

import numpy as np
import pytest

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.functions import OnlineFunction, release_function
from sfumato.functions.store import AnswerStore
from sfumato.kernels import ExponentialKernel
from sfumato.mechanisms import GaussianProcessMechanism

MECHANISM = GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=1.0, delta=1e-5)


def wave(X):
    return np.sin(6 * X[:, 0])


def begin(store, name="wave"):
    return release_function(
        wave,
        kernel=ExponentialKernel(5.0),
        mechanism=MECHANISM,
        form="online",
        domain=Bounds(lower=0.0, upper=1.0),
        store=store,
        name=name,
    )


def resume(store, name="wave"):
    return OnlineFunction.resume(wave, store=store, name=name)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.db"


def run_sql(path, *statements):
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


DAMAGE = {
    "answer changed": "UPDATE sfumato_answers SET answer = answer + 1e-9 WHERE position = 2",
    "answer to text": "UPDATE sfumato_answers SET answer = 'x' WHERE position = 2",
    "answer to infinity": "UPDATE sfumato_answers SET answer = 9e999 WHERE position = 2",
    "point moved": "UPDATE sfumato_answers SET point = '77' WHERE position = 1",
    "row removed": "DELETE FROM sfumato_answers WHERE position = 2",
    "tail removed": "DELETE FROM sfumato_answers WHERE position = 4",
    "all removed": "DELETE FROM sfumato_answers",
    "rows swapped": "UPDATE sfumato_answers SET position = CASE position WHEN 1 THEN 99 ELSE "
    "position END",
    "count changed": "UPDATE sfumato_functions SET count = 3",
    "count and head reset": "UPDATE sfumato_functions SET count = 0",
    "kernel changed": "UPDATE sfumato_functions SET header = replace(header, '5.0', '6.0')",
    "noise changed": "UPDATE sfumato_functions SET header = replace(header, '\"bits\": 20', "
    "'\"bits\": 10')",
    "header to garbage": "UPDATE sfumato_functions SET header = 'garbage'",
    "table gone": "DROP TABLE sfumato_answers",
}


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_a_changed_store_is_refused(path, statement):
    begin(path)([0.1, 0.5, 0.7, 0.9])
    resume(path)([0.1])
    run_sql(path, statement)
    with pytest.raises(StoredModelError):
        resume(path)([0.3])


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_a_store_changed_under_a_running_release_never_changes_an_answer(path, statement):
    f = begin(path)
    told = f([0.1, 0.5, 0.7, 0.9])
    run_sql(path, statement)
    assert (f([0.1, 0.5, 0.7, 0.9]) == told).all()


def test_an_older_copy_put_back_is_seen_by_a_running_release(path, tmp_path):
    f = begin(path)
    f([0.1, 0.5])
    f._book._database.close()
    shutil.copy(path, tmp_path / "old.db")
    f([0.7])
    f._book._database.close()
    shutil.copy(tmp_path / "old.db", path)
    with pytest.raises(StoredModelError, match="older state"):
        f([0.3])


def test_a_damaged_file_is_refused(path):
    begin(path)(np.linspace(0, 1, 500))
    content = bytearray(path.read_bytes())
    for other in path.parent.glob("answers.db-*"):
        other.unlink()
    for start in (0, 4096, 8192, len(content) // 2):
        broken = content.copy()
        broken[start : start + 600] = os.urandom(600)
        path.write_bytes(broken)
        with contextlib.suppress(StoredModelError):
            answers = resume(path)(np.linspace(0, 1, 500))
            pytest.fail(f"bytes at {start} changed, and {len(answers)} answers came")
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoredModelError):
        resume(path)(np.linspace(0, 1, 500))


def test_a_name_that_is_no_text_any_more_is_refused_too(path):
    """SQLite quotes the damaged name, which its Python wrapper cannot decode."""
    f = begin(path.with_name("other.db"))
    f([0.1])
    f._book._database.close()
    content = path.with_name("other.db").read_bytes()
    place = content.index(b"TABLE sfumato_answers")
    path.write_bytes(content[:place] + b"\xf4" + content[place + 1 :])
    with pytest.raises(StoredModelError):
        resume(path)([0.1])


def test_a_file_that_is_no_store(path, tmp_path):
    path.write_text("this is a diary, " * 100)
    with pytest.raises(StoredModelError, match="is not a store"):
        begin(path)
    with pytest.raises(StoredModelError, match="cannot be opened"):
        begin(tmp_path / "nowhere" / "a.db")
    with pytest.raises(StoredModelError, match="There is no store"):
        resume(tmp_path / "fresh.db")
    assert not (tmp_path / "fresh.db").exists()
    for address in ("", "mysql://root@host/db"):
        with pytest.raises(InvalidInputError, match="location of a store must be"):
            AnswerStore(address)


def test_a_locked_store_says_so(path):
    f = begin(path)
    f._book._database.timeout = 0.05
    f._book._database.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoredModelError, match="locked"):
        f([0.5])
    connection.execute("ROLLBACK")
    connection.close()
    f([0.5])


def test_several_releases_share_a_store(path):
    f, g = begin(path, "one"), begin(path, "two")
    assert f([0.5]) != g([0.5])
    assert (resume(path, "one")([0.5]), resume(path, "two")([0.5])) == (f([0.5]), g([0.5]))


def test_threads_agree(path):
    f, g = begin(path), resume(path)
    x, answers = np.linspace(0, 1, 60), []
    workers = [
        threading.Thread(target=lambda r=release: answers.append([r([v])[0] for v in x]))
        for release in (f, g, f)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answers[0] == answers[1] == answers[2]


def test_without_a_store_a_child_gets_no_new_answers(in_child):
    f = begin(None, None)
    told = f([0.5])
    assert in_child(lambda: f([0.5])[0] == told[0]) == "np.True_"
    assert in_child(lambda: f([0.7])).startswith("StoredModelError: An online release without")
    f([0.7])


def _ask(path, places, answers):
    f = resume(path)
    answers.put([float(f([x])[0]) for x in places])


def test_processes_that_ask_at_once_agree(path, start_child):
    begin(path)
    places = np.linspace(0, 1, 40)
    answers = multiprocessing.get_context("fork").SimpleQueue()
    orders = [random.Random(i).sample(range(40), 40) for i in range(4)]
    children = [start_child(_ask, path, places[order], answers) for order in orders]
    found = [answers.get() for _ in children]
    for child in children:
        child.join()
    final = resume(path)
    told = {tuple(final(places[order])) for order in orders}
    assert {tuple(each) for each in found} == told
    assert len(final) == 40


def test_a_child_goes_on_with_the_release_it_inherited(path, in_child):
    f = begin(path)
    f([0.2])
    there = in_child(lambda: float(f([0.8])[0]))
    assert float(there) == f([0.8])[0]


def _ask_and_tell(path, seed, told):
    f = resume(path)
    generator = random.Random(seed)
    while True:
        block = [generator.random() for _ in range(generator.randrange(1, 5))]
        for x, answer in zip(block, f(block), strict=True):
            told.send((x, float(answer)))


def test_killed_at_any_moment_no_answer_is_contradicted(path, start_child):
    begin(path)
    told = {}
    for session, delay in enumerate(random.Random(0).choices(range(30), k=12)):
        here, there = multiprocessing.Pipe(duplex=False)
        child = start_child(_ask_and_tell, path, session, there)
        there.close()
        told.update([here.recv()])
        time.sleep(delay / 1000)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with contextlib.suppress(EOFError):
            while True:
                x, answer = here.recv()
                assert told.setdefault(x, answer) == answer
        here.close()
    f = resume(path)
    assert len(told) >= 12
    assert f(list(told)).tolist() == list(told.values())
