"""The Flower apps: in this process, in Flower's simulation engine, and deployed for real."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'sfumato[federated]'")

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from sfumato import Ledger, load
from sfumato.exceptions import FederationError
from sfumato.federated import HullTask, read_party, simulate, spread
from sfumato.federated.flower.adapter import (
    _answer,
    ask_all,
    client_app,
    content_of,
    reply_in,
    request_in,
    server_app,
)
from sfumato.federated.flower.app_folder import write_app
from sfumato.federated.flower.certificates import make_node_key, make_server_certificate
from sfumato.federated.flower.deployment import write_deployment
from sfumato.federated.flower.simulation import run_configuration, simulate_with_flower
from sfumato.federated.messages import Request
from tests.federated.cluster import Cluster
from tests.federated.federations import hulls, write_party


class LocalGrid(Grid):
    """Runs a ClientApp in this process, through its public signature."""

    def __init__(self, app: Any, n_nodes: int, config: dict[str, Any], dead: tuple[int, ...] = ()):
        self.app, self.dead = app, dead
        self.contexts = {
            number + 2: Context(1, number + 2, {"partition-id": number}, RecordDict(), config)
            for number in range(n_nodes)
        }
        self.replies: dict[str, Message] = {}
        self.numbers = itertools.count()

    run = property(lambda self: None)

    def set_run(self, run: Any) -> None: ...

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise AssertionError("not used")

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def push_messages(self, messages: Any) -> list[str]:
        numbers = []
        for message in messages:
            number = str(next(self.numbers))
            message.metadata.__dict__["_message_id"] = number
            node = message.metadata.dst_node_id
            self.replies[number] = (
                Message(Error(5, "node unavailable"), reply_to=message)
                if node - 2 in self.dead
                else self.app(message, self.contexts[node])
            )
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Any) -> list[Message]:
        return [self.replies.pop(number) for number in list(message_ids) if number in self.replies]

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        raise AssertionError("not used")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Message() works only where an engine has set these; a private module, so in one place."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def configuration(task: HullTask, folder: Path, n_parties: int, **more: Any) -> dict[str, Any]:
    (folder / "out").mkdir(exist_ok=True)
    return {
        "queries": "",
        "party-names": "",
        "wait-seconds": 1.0,
        "round-seconds": 120.0,
        "parties-folder": str(folder),
        **run_configuration(task, folder / "out", n_parties),
        **more,
    }


def write_parties(
    folder: Path, X: np.ndarray, y: np.ndarray, n_parties: int, unit: str = "entry"
) -> None:
    for number, part in enumerate(spread(y, "random", n_parties, random_state=0)):
        write_party(folder, number, X[part], y[part], unit=unit)


def simulated_again(folder: Path, n_parties: int, task: HullTask) -> Any:
    """Run the task in this process on what the parties have stored: the same released values."""
    parties = [read_party(folder / f"party-{number}.toml") for number in range(n_parties)]
    return simulate(parties, task)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("dead", [(), (1,)])
def test_the_app_gives_what_the_simulation_gives(tmp_path, digits, dead) -> None:
    X, y, X_test, _ = digits
    write_parties(tmp_path, X, y, 3)
    task = HullTask("t", hulls())
    config = configuration(task, tmp_path, 3)
    grid = LocalGrid(client_app("hulls"), 3, config, dead)
    server_app("hulls")(grid, Context(1, 1, {}, RecordDict(), config))

    told = json.loads((tmp_path / "out" / "federation.json").read_text())
    assert len(told["rounds"][0]["answered"]) == 3 - len(dead)
    assert len(told["rounds"][0]["refused"]) == len(dead)
    if not dead:
        model = load(tmp_path / "out" / "global.sfumato")
        same = simulated_again(tmp_path, 3, task).model
        np.testing.assert_array_equal(model.distances(X_test), same.distances(X_test))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("names", "noted"),
    [("hospital-0,hospital-1,hospital-2", "hospital-2"), ("", "absent party 1")],
)
def test_a_party_that_never_came_is_named_in_the_result(tmp_path, digits, names, noted) -> None:
    X, y, _, _ = digits
    write_parties(tmp_path, X, y, 3)
    config = configuration(HullTask("t", hulls()), tmp_path, 3, **{"party-names": names})
    config["wait-seconds"] = 0.0
    context = Context(1, 1, {}, RecordDict(), config)
    server_app("hulls")(LocalGrid(client_app("hulls"), 2, config), context)
    told = json.loads((tmp_path / "out" / "federation.json").read_text())
    assert told["rounds"][0]["refused"] == {noted: "No reply came from this party."}
    assert sorted(told["parties"]) == ["hospital-0", "hospital-1"]
    config["min-parties"] = 3  # stored releases, and one party too few
    with pytest.raises(FederationError, match="2 of at least 3"):
        server_app("hulls")(LocalGrid(client_app("hulls"), 2, config), context)
    assert noted in json.loads((tmp_path / "out" / "failed.json").read_text())["failed"]
    config["min-parties"] = 2
    server_app("hulls")(LocalGrid(client_app("hulls"), 2, config), context)
    assert not (tmp_path / "out" / "failed.json").exists()


@pytest.mark.usefixtures("engine")
def test_distances_are_served_through_the_app(tmp_path, digits) -> None:
    X, y, X_test, y_test = digits
    write_parties(tmp_path, X, y, 2)
    np.save(tmp_path / "queries.npy", X_test)
    task = HullTask("t", hulls(), "distances")
    config = configuration(task, tmp_path, 2, queries=str(tmp_path / "queries.npy"))
    server_app("hulls")(
        LocalGrid(client_app("hulls"), 2, config), Context(1, 1, {}, RecordDict(), config)
    )
    with np.load(tmp_path / "out" / "predictions.npz") as told:
        assert np.mean(told["labels"] == y_test) > 0.9
    assert not (tmp_path / "out" / "global.sfumato").exists()


@pytest.mark.usefixtures("engine")
def test_a_phase_of_another_app_is_refused(tmp_path, digits) -> None:
    X, y, _, _ = digits
    write_parties(tmp_path, X, y, 1)
    grid = LocalGrid(client_app("hulls"), 1, {"parties-folder": str(tmp_path)})
    replies = ask_all(grid, Request("t", "sums.describe"), seconds=5)
    assert "no such phase" in replies[0].refusal


@pytest.mark.usefixtures("engine")
def test_requests_survive_the_records(digits) -> None:
    request = Request("t", "hulls.fit", {"serve": "models"}, {"a": digits[0], "b": np.arange(3)})
    header = {"task": "t", "phase": "hulls.fit", "settings": {"serve": "models"}}
    assert request_in(content_of(header, request.arrays)).fingerprint() == request.fingerprint()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("content", [RecordDict(), content_of({"party": "x"}, {})])
def test_a_reply_of_another_make_is_refused(content) -> None:
    question = Message(RecordDict(), message_type="train", dst_node_id=7)
    question.metadata.__dict__["_message_id"] = "1"
    assert "cannot be read" in reply_in(Message(content, reply_to=question), 7).refusal


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 200_000, "NaN", "{}", "", '"t"', '{"task": "t"}', "[1, 2, 3]", '{"task": 1e999}'),
        '{"task": "t", "phase": 3, "settings": {}}',
        '{"task": "t", "phase": "sums.describe", "settings": {"relation": NaN}}',
        '{"task": "t", "phase": "sums.begin", "settings": ' + '{"a":' * 900 + "0" + "}" * 901,
    ],
)
def test_a_request_of_another_make_is_refused(tmp_path, digits, text) -> None:
    party = read_party(write_party(tmp_path, 0, digits[0], digits[1]))
    records = {"header": ConfigRecord({"json": text}), "arrays": ArrayRecord({})}
    refusal = _answer(party, RecordDict(records), "sums").refusal
    assert refusal is not None
    assert "keeps to itself" not in refusal


# Deployed for real -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("federation")) as cluster:
        yield cluster


# A wait ends as soon as it may; its length matters only to a machine that is busy with others.
LONG = 900.0


def wait_until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


def write_script(cluster: Cluster, task: HullTask, party: Path) -> Path:
    """Write the files of a deployment for its party 1, and hand that party what it needs."""
    top = write_deployment(
        cluster.folder / "files", task, ["hospital-1"], host="127.0.0.1", port=cluster.link.port
    )
    folder = top / "parties" / "hospital-1"
    (folder / "party.toml").write_bytes(party.read_bytes())
    (folder / "ca.crt").write_bytes((cluster.folder / "ca.crt").read_bytes())
    public = make_node_key(folder / "node.key")
    cluster.link.flwr("supernode", "register", str(public), cluster.link.name)
    return folder / "supernode.sh"


def spent(folder: Path) -> list[float]:
    return [Ledger(folder / f"ledger-{n}.db").dataset("rows").spent() for n in range(2)]


def answers(folder: Path, number: int) -> int:
    messages = folder / f"releases-{number}" / "messages.jsonl"
    return len(messages.read_text().splitlines()) if messages.exists() else 0


@pytest.mark.servers
@pytest.mark.xdist_group("deployment")
def test_a_deployment_with_accidents(deployed: Cluster, digits: Any) -> None:
    """Three runs of a task among four parties; Flower misses a killed one late.

    In the first the coordinator and a node are killed, in the second a party dies and one sends
    garbage; the third finds the killed node back and pays for nothing. `make test-servers` runs
    another task after them, which else only Flower's simulation does.
    """
    X, y, X_test, y_test = digits
    folder = deployed.folder
    for number, part in enumerate(spread(y, "random", 4, random_state=0)):
        ledger = folder / f"ledger-{number}.db"
        Ledger(ledger).create("rows", epsilon=20, delta=1e-5, unit="entry")
        places = {"data": f"{folder}/rows-{number}.npz", "store": f"{folder}/releases-{number}"}
        budget = {"ledger": str(ledger), "dataset": "rows"}
        write_party(folder, number, X[part], y[part], **places, **budget)
    task = HullTask("accidents", hulls())
    # Party 3 answers with what stands in its store, and somebody has been there.
    read_party(folder / "party-3.toml").answer(task.request())
    (release,) = (folder / "releases-3").glob("*.release")
    data = bytearray(release.read_bytes())
    data[len(data) // 2] ^= 255
    release.write_bytes(bytes(data))
    # Party 2 reads its rows from a pipe that nobody fills: it hangs until it is killed.
    (folder / "rows-2.npz").unlink()
    os.mkfifo(folder / "rows-2.npz")

    script = write_script(deployed, task, folder / "party-1.toml")
    deployed.run_script("node-1", script)
    for number in (0, 2):
        deployed.add(f"node-{number}", folder / f"party-{number}.toml")
    config = configuration(task, folder, 4) | {"wait-seconds": LONG, "round-seconds": LONG}
    del config["parties-folder"]
    app = write_app(folder, "hulls")
    lost = deployed.link.submit(app, config)
    deployed.add("node-3", folder / "party-3.toml")  # late: the run waits for it already
    wait_until(lambda: answers(folder, 0) and answers(folder, 1))
    deployed.kill_program("flwr-serverapp")
    deployed.kill_program("flower-supernode", f"party='{script.parent}/party.toml'")
    before = spent(folder)
    assert all(0 < each <= 16 for each in before)

    run = deployed.link.submit(app, config)
    wait_until(lambda: answers(folder, 0) == 2)
    deployed.kill("node-2")
    wait_until((folder / "out" / "federation.json").exists)
    deployed.link.wait(run, LONG)
    with pytest.raises(FederationError, match=r"No heartbeat.*was killed.*nobody pays twice"):
        deployed.link.wait(lost, LONG)
    told = json.loads((folder / "out" / "federation.json").read_text())
    assert len(told["rounds"][0]["refused"]) == 4 - len(told["parties"])
    assert {"hospital-0"} <= set(told["parties"]) <= {"hospital-0", "hospital-1"}

    run = deployed.link.submit(app, {**config, "parties": 3})
    deployed.link.wait(run, LONG)
    told = json.loads((folder / "out" / "federation.json").read_text())
    assert sorted(told["parties"]) == ["hospital-0", "hospital-1"]
    assert told["total"]["conditions"]
    model = load(folder / "out" / "global.sfumato")
    same = simulated_again(folder, 2, task).model
    np.testing.assert_array_equal(model.distances(X_test), same.distances(X_test))
    assert model.score(X_test, y_test) > 0.8
    assert spent(folder) == before


@pytest.mark.servers
def test_flowers_simulation_engine(tmp_path: Path, digits: Any) -> None:
    pytest.importorskip("ray", reason="Flower's simulation needs Ray: 'sfumato[federated]'")
    X, y, X_test, _ = digits
    write_parties(tmp_path, X, y, 2)
    task = HullTask("t", hulls())
    told = simulate_with_flower(tmp_path, task, tmp_path / "out")
    assert sorted(told["parties"]) == ["hospital-0", "hospital-1"]
    model = load(tmp_path / "out" / "global.sfumato")
    same = simulated_again(tmp_path, 2, task).model
    np.testing.assert_array_equal(model.distances(X_test), same.distances(X_test))


@pytest.mark.servers
@pytest.mark.xdist_group("deployment")
def test_strangers_are_kept_out(deployed: Cluster, tmp_path: Path) -> None:
    party = tmp_path / "party.toml"
    party.write_text(
        'name = "stranger"\ndata = "rows.npz"\nstore = "releases"\nledger = "none"\n'
        'bounds = "none"\nmax_epsilon = 1.0\nmax_delta = 1e-6\n'
    )
    unknown = deployed.add("unknown-key", party, register=False)
    other = tmp_path / "other"
    other.mkdir()
    make_server_certificate(other, ["localhost"])
    misled = deployed.add("wrong-authority", party, certificate=other / "ca.crt")
    assert unknown.wait(LONG) != 0
    assert misled.wait(LONG) != 0
    assert not (tmp_path / "releases").exists()
