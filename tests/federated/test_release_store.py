"""A release is made once; a retry gets the stored one, other settings get a refusal."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from sfumato.exceptions import FederationError
from sfumato.federated.messages import Reply, Request, read_reply, write_reply
from sfumato.federated.release_store import ReleaseStore

ASKED = Request("task", "hulls.fit", {"serve": "models"}, {"a": np.arange(3.0)})


def fresh() -> Reply:
    return Reply("a", {"n": 1}, {"noise": np.random.default_rng().normal(size=4)})


def test_a_retry_gets_the_stored_release(tmp_path: Path) -> None:
    first = ReleaseStore(tmp_path).released(ASKED, fresh)
    again = ReleaseStore(tmp_path).released(ASKED, fresh)
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
    store.released(ASKED, fresh)
    with pytest.raises(FederationError, match="other settings"):
        store.released(changed, fresh)


def test_a_damaged_release_is_refused_and_not_made_again(tmp_path: Path) -> None:
    store = ReleaseStore(tmp_path)
    store.released(ASKED, fresh)
    (path,) = tmp_path.glob("*.release")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=60).tolist():
        damaged = bytearray(whole[:place]) if place % 2 else bytearray(whole)
        if place < len(damaged):
            damaged[place] ^= 0xA5
        path.write_bytes(damaged)
        with pytest.raises(FederationError, match=r"is damaged|other settings"):
            store.released(ASKED, fresh)
        assert path.read_bytes() == damaged


def test_another_name_is_another_release(tmp_path: Path) -> None:
    store = ReleaseStore(tmp_path)
    first = store.released(ASKED, fresh)
    other = store.released(Request("other", ASKED.phase, ASKED.settings, ASKED.arrays), fresh)
    assert not np.array_equal(first.arrays["noise"], other.arrays["noise"])


def test_a_failed_release_leaves_nothing(tmp_path: Path) -> None:
    store = ReleaseStore(tmp_path)
    with pytest.raises(ZeroDivisionError):
        store.released(ASKED, lambda: 1 / 0)
    assert store.find(ASKED) is None


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "store"
    ReleaseStore(inside).released(Request("../../evil", "x/../y"), fresh)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def _ask_in_process(folder: str, queue: object) -> None:
    queue.put(ReleaseStore(folder).released(ASKED, fresh).arrays["noise"].tolist())


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


def test_a_reply_survives_its_bytes() -> None:
    reply = Reply("b", {"classes": [0, 1], "x": 0.1}, {"m": np.eye(3, dtype=np.float32)}, None)
    back = read_reply(write_reply(reply))
    assert (back.party, dict(back.facts), back.refusal) == ("b", dict(reply.facts), None)
    assert back.arrays["m"].dtype == np.float32
    np.testing.assert_array_equal(back.arrays["m"], np.eye(3))


@pytest.mark.parametrize(
    ("array", "shape"),
    [
        (np.eye(2), (3, 3)),
        (np.eye(3, dtype=int), (3, 3)),
        (np.full((3, 3), np.nan), (3, 3)),
        (np.ones(3), (None, 3)),
    ],
)
def test_arrays_that_were_not_asked_for_are_refused(array: np.ndarray, shape: tuple) -> None:
    with pytest.raises(FederationError, match="bad-party"):
        Reply("bad-party", arrays={"m": array}).array("m", shape)
