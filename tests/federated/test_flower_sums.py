"""Sums over the parties of Flower's nodes: in this process, and deployed with TLS and node keys."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'sfumato[federated]'")

from flwr.app import Error as FlowerError, Message
from sklearn.base import clone

from sfumato import Bounds, Ledger, PrivateGaussianClassifier, PrivatePCA, load
from sfumato.exceptions import FederationError
from sfumato.federated import SumsTask, spread
from sfumato.federated.flower.adapter import client_app, request_in, server_app
from sfumato.federated.flower.app_folder import write_app
from sfumato.federated.flower.simulation import run_configuration
from sfumato.report.certificate import new_key
from sfumato.sums import Records
from tests.federated.cluster import NODES, Cluster
from tests.federated.federations import write_party
from tests.federated.test_flower import LocalGrid

BOUNDS = Bounds(norm=80.0, labels=range(10))
LONG = 1200.0


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Message() works only where an engine has set these."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Mortal(LocalGrid):
    """Nodes die when they are asked for a phase."""

    def __init__(self, *args: Any, dying: dict[int, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.dying = dying

    def push_messages(self, messages: Any) -> list[str]:
        for message in messages:
            place = message.metadata.dst_node_id - 2
            phase = request_in(message.content).phase
            if phase.startswith(self.dying.get(place, "never")):
                self.dead = (*self.dead, place)
        numbers = super().push_messages(messages)
        assert all(isinstance(self.replies[n], Message | FlowerError) for n in numbers)
        return numbers


def secure_parties(folder: Path, X: Any, y: Any, n_parties: int, colluding: int = 1) -> None:
    """Write parties that have made keys and exchanged them."""
    keys = {f"hospital-{i}": new_key(folder / f"key-{i}.pem") for i in range(n_parties)}
    for number, part in enumerate(spread(y, "random", n_parties, random_state=0)):
        Ledger(folder / f"ledger-{number}.db").create("rows", epsilon=31.0, delta=1e-5)
        path = write_party(
            folder,
            number,
            X[part],
            y[part],
            unit="record",
            max_epsilon=31.0,
            ledger=f"ledger-{number}.db",
            dataset="rows",
            key=f"key-{number}.pem",
            colluding=colluding,
        )
        lines = "".join(f'{name} = "{key}"\n' for name, key in keys.items())
        path.write_text(path.read_text() + "[keys]\n" + lines)


def configuration(task: SumsTask, folder: Path, n_parties: int) -> dict[str, Any]:
    (folder / "out").mkdir(exist_ok=True)
    return {
        "queries": "",
        "party-names": "",
        "wait-seconds": 1.0,
        "round-seconds": 120.0,
        "parties-folder": str(folder),
        **run_configuration(task, folder / "out", n_parties),
    }


def spent(folder: Path, n_parties: int) -> list[float]:
    return [Ledger(folder / f"ledger-{i}.db").dataset("rows").spent() for i in range(n_parties)]


class Replayed(Records):
    """Records that give sums which were released before."""

    def __init__(self, sums: list[np.ndarray], told: dict[str, Any], width: int) -> None:
        self._sums, self._told, self._number = sums, told, [0]
        super().__init__(width, "replace_one", 1)

    @property
    def public_rows(self) -> int:
        """Rows of those who were in the last sum."""
        rounds, rows = self._told["sums"], self._told["parties"]
        last = max(self._number[0] - 1, 0)
        everybody = list(rows) if self._number[0] == 0 else rounds[last]["included"]
        return sum(rows[name]["rows"] for name in everybody)

    @public_rows.setter
    def public_rows(self, number: int) -> None: ...

    def variance_of(self, mechanism: Any) -> float:
        n_parties = len(self._told["parties"])
        enough = n_parties - self._told["dropouts"] - self._told["colluding"]
        last = max(self._number[0] - 1, 0)
        included = len(self._told["sums"][last]["included"]) if self._number[0] else n_parties
        return float(mechanism.variance()) * included / enough

    def mapped(self, row_map: Any) -> Records:
        view = Replayed(self._sums, self._told, row_map.width)
        view._number = self._number
        return view

    def release(self, statistic: Any, mechanism: Any, receipt: Any) -> np.ndarray:
        self._number[0] += 1
        return self._sums[self._number[0] - 1]

    def _blocks(self) -> Any:
        raise AssertionError


def test_secure_sums_through_the_apps_with_one_node_lost(tmp_path: Path, digits: Any) -> None:
    """Each message meets a party that is read from its file anew, as in a deployment."""
    X, y, X_test, y_test = digits
    secure_parties(tmp_path, X, y, 4)
    model = PrivateGaussianClassifier(
        n_components=10, gaussians_per_class=1, epsilon=30.0, delta=1e-5, bounds=BOUNDS
    )
    task = SumsTask("digits", model, "secure", colluding=1, dropouts=1)
    config = configuration(task, tmp_path, 4)
    grid = Mortal(client_app("sums"), 4, config, dying={2: "sums.mask.1"})
    context = grid.contexts[2]
    server_app("sums")(grid, context)
    found = load(tmp_path / "out" / "global.sfumato")
    told = json.loads((tmp_path / "out" / "federation.json").read_text())
    assert [len(each["included"]) for each in told["sums"]] == [4, 3, 3]
    assert [name for name, each in told["parties"].items() if not each["to_the_end"]] == [
        "hospital-2"
    ]
    assert {each["seen"] for each in told["sums"]} == {"nothing but the total"}
    assert found.guarantee_.status == "conditional"
    assert found.score(X_test, y_test) > 0.5
    assert all(29.9 < each <= 30 for each in spent(tmp_path, 4))
    with np.load(tmp_path / "out" / "sums.npz") as members:
        sums = [members[name] for name in members.files]
    again = clone(model).fit(Replayed(sums, told, 64))
    np.testing.assert_array_equal(again.predict(X_test), found.predict(X_test))
    np.testing.assert_array_equal(again.means_, found.means_)


def test_a_party_without_the_others_keys_refuses_secure_sums(tmp_path: Path, digits: Any) -> None:
    X, y, *_ = digits
    secure_parties(tmp_path, X, y, 3)
    file = tmp_path / "party-1.toml"
    file.write_text(file.read_text().partition("[keys]")[0] + "[keys]\n")
    task = SumsTask("t", PrivatePCA(n_components=2, epsilon=1.0, delta=1e-5, bounds=BOUNDS))
    grid = LocalGrid(client_app("sums"), 3, configuration(task, tmp_path, 3))
    with pytest.raises(FederationError, match="has not registered this key"):
        server_app("sums")(grid, grid.contexts[2])
    assert "registered" in json.loads((tmp_path / "out" / "failed.json").read_text())["failed"]


def deployed(
    folder: Path, task: SumsTask, *, n_parties: int, killed: tuple[int, ...]
) -> dict[str, Any]:
    """Run a task with TLS and node keys; nodes that hang over their rows are killed."""
    config = configuration(task, folder, n_parties)
    config |= {"wait-seconds": LONG, "round-seconds": LONG}
    del config["parties-folder"]
    with Cluster(folder) as cluster:
        for number in range(n_parties):
            cluster.add(f"node-{number}", folder / f"party-{number}.toml")
        run = cluster.link.submit(write_app(folder, "sums"), config)
        for number in killed:
            sessions = folder / f"releases-{number}" / "sessions"
            wait_until(lambda at=sessions: at.exists() and any(at.glob("*.json")))
            (folder / f"rows-{number}.npz").unlink()  # its rows are a pipe now that nobody fills
            os.mkfifo(folder / f"rows-{number}.npz")
        wait_until(lambda: any((folder / "releases-0" / "journal").glob("*.decision")))
        for number in killed:
            cluster.kill(f"node-{number}")
        cluster.link.wait(run, LONG)
    return dict(json.loads((folder / "out" / "federation.json").read_text()))


def wait_until(happened: Callable[[], Any]) -> None:
    end = time.monotonic() + LONG
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.servers
@pytest.mark.xdist_group("deployment")
def test_secure_moments_deployed_with_nodes_killed_in_the_middle(
    tmp_path: Path, digits: Any
) -> None:
    """Of three SuperNodes one, of five two hang as they are asked for their numbers."""
    X, y, *_ = digits
    secure_parties(tmp_path, X, y, NODES, colluding=0)
    stay, killed = range(NODES // 2 + 1), tuple(range(NODES // 2 + 1, NODES))
    task = SumsTask(
        "deployed",
        PrivatePCA(n_components=5, epsilon=8.0, delta=1e-5, bounds=BOUNDS),
        "secure",
        colluding=0,
        dropouts=len(killed),
    )
    told = deployed(tmp_path, task, n_parties=NODES, killed=killed)
    assert len(told["sums"]) == 1
    assert set(told["sums"][0]["included"]) >= {f"hospital-{number}" for number in stay}
    found = load(tmp_path / "out" / "global.sfumato")
    with np.load(tmp_path / "out" / "sums.npz") as members:
        sums = [members[name] for name in members.files]
    again = clone(task.estimator).fit(Replayed(sums, told, 64))
    np.testing.assert_array_equal(again.components_, found.components_)
    assert all(7.9 < each <= 8 for each in spent(tmp_path, NODES))
