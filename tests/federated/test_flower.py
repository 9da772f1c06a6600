"""The Flower apps: in this process, through their public signatures, and deployed for real."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'sfumato[federated]'")

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from sfumato import Bounds, Ledger, PrivateGaussianClassifier, PrivatePCA, load, save
from sfumato.exceptions import FederationError
from sfumato.federated import read_party, spread
from sfumato.federated.flower import (
    GridCarrier,
    answer_content,
    client_app,
    reply_from,
    request_from,
    server_app,
    to_content,
)
from sfumato.federated.messages import Reply, Request
from sfumato.report.certificate import new_key
from tests.federated.federations import write_party

BOUNDS = Bounds(norm=80.0, labels=range(10))
LONG = 900.0


class LocalGrid(Grid):
    """Runs a ClientApp in this process; nodes in `dying` die when they are asked for a phase."""

    def __init__(
        self, app: Any, folder: Path, n_nodes: int, dying: dict[int, str] | None = None
    ) -> None:
        self.app, self.dying, self.dead = app, dying or {}, set()
        self.contexts = {
            number: Context(
                1, number, {"party": str(folder / f"party-{number}.toml")}, RecordDict(), {}
            )
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
            number, node = str(next(self.numbers)), message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = number
            if request_from(message.content).phase.startswith(self.dying.get(node, "never")):
                self.dead.add(node)
            self.replies[number] = (
                Message(Error(5, "node unavailable"), reply_to=message)
                if node in self.dead
                else self.app(message, self.contexts[node])
            )
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Any) -> list[Message]:
        return [self.replies.pop(number) for number in list(message_ids) if number in self.replies]

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        raise AssertionError("not used")


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Message() works only where an engine has set these; a private module, so in one place."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def configuration(estimator: Any, folder: Path, n_parties: int, **more: Any) -> dict[str, Any]:
    save(estimator, folder / "estimator.sfumato")
    return {
        "task": "t",
        "estimator": str(folder / "estimator.sfumato"),
        "out": str(folder / "out"),
        "parties": n_parties,
        "party-names": "",
        "wait-seconds": 1.0,
        "round-seconds": 120.0,
        "trust": "secure",
        "colluding": 1,
        "dropouts": 0,
        **more,
    }


def run_server(grid: Grid, config: dict[str, Any]) -> dict[str, Any]:
    server_app()(grid, Context(1, 1, {}, RecordDict(), config))
    return dict(json.loads((Path(config["out"]) / "federation.json").read_text()))


# Messages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [RecordDict(), to_content({"party": "x"}, {})])
def test_a_reply_of_another_make_is_refused(content) -> None:
    question = Message(RecordDict(), message_type="train", dst_node_id=7)
    question.metadata.__dict__["_message_id"] = "1"
    assert "cannot be read" in str(reply_from(Message(content, reply_to=question), 7).refusal)


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
    refusal = answer_content(party, RecordDict(records)).refusal
    assert refusal is not None
    assert "keeps to itself" not in refusal


def test_a_node_does_not_answer_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [["a", "b"], ["b", "a"]]
    said = lambda *_: dict(enumerate(map(Reply, names.pop(0))))  # noqa: E731
    monkeypatch.setattr("sfumato.federated.flower.exchange", said)
    hello, asked = Request("t", "sums.describe"), Request("t", "sums.release.0")
    carrier = GridCarrier(LocalGrid(None, Path(), 2), hello, 1.0)
    assert carrier.ask({"a": asked, "b": asked}) == {}


# Secure sums -------------------------------------------------------------------------------------


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
            max_epsilon=31.0,
            ledger=f"ledger-{number}.db",
            dataset="rows",
            key=f"key-{number}.pem",
            colluding=colluding,
        )
        lines = "".join(f'{name} = "{key}"\n' for name, key in keys.items())
        path.write_text(path.read_text() + "[keys]\n" + lines)


def spent(folder: Path, n_parties: int) -> list[float]:
    return [Ledger(folder / f"ledger-{i}.db").dataset("rows").spent() for i in range(n_parties)]


def test_secure_sums_through_the_apps_with_one_node_lost(tmp_path: Path, digits: Any) -> None:
    """Each message meets a party that is read from its file anew, as in a deployment."""
    X, y, X_test, y_test = digits
    secure_parties(tmp_path, X, y, 4)
    model = PrivateGaussianClassifier(
        n_components=10, gaussians_per_class=1, epsilon=30.0, delta=1e-5, bounds=BOUNDS
    )
    grid = LocalGrid(client_app(), tmp_path, 4, {2: "sums.mask.1"})
    told = run_server(grid, configuration(model, tmp_path, 4, dropouts=1))
    found = load(tmp_path / "out" / "global.sfumato")
    assert [len(each["included"]) for each in told["sums"]] == [4, 3, 3]
    gone = [name for name, each in told["parties"].items() if not each["to_the_end"]]
    assert gone == ["hospital-2"]
    assert {each["seen"] for each in told["sums"]} == {"nothing but the total"}
    assert found.guarantee_.status == "conditional"
    assert found.score(X_test, y_test) > 0.5
    assert all(29.9 < each <= 30 for each in spent(tmp_path, 4))


def test_a_party_without_the_others_keys_refuses_secure_sums(tmp_path: Path, digits: Any) -> None:
    X, y, *_ = digits
    secure_parties(tmp_path, X, y, 3)
    file = tmp_path / "party-1.toml"
    file.write_text(file.read_text().partition("[keys]")[0] + "[keys]\n")
    model = PrivatePCA(n_components=2, epsilon=1.0, delta=1e-5, bounds=BOUNDS)
    with pytest.raises(FederationError, match="has not registered this key"):
        run_server(LocalGrid(client_app(), tmp_path, 3), configuration(model, tmp_path, 3))
    assert "registered" in json.loads((tmp_path / "out" / "failed.json").read_text())["failed"]


# Deployed for real -------------------------------------------------------------------------------

APP = """\
[project]
name = "sfumato-sums"
version = "1.0.0"
dependencies = []
[tool.flwr.app]
publisher = "sfumato"
[tool.flwr.app.components]
serverapp = "sfumato_sums.server_app:app"
clientapp = "sfumato_sums.client_app:app"
[tool.flwr.app.config]
"""


def wait_until(happened: Callable[[], Any]) -> None:
    end = time.monotonic() + LONG
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


@pytest.mark.servers
@pytest.mark.xdist_group("deployment")
def test_secure_moments_deployed_with_a_node_killed_in_the_middle(
    tmp_path: Path, digits: Any
) -> None:
    """One SuperLink and three SuperNodes on loopback; one hangs over its rows and is killed."""
    X, y, *_ = digits
    secure_parties(tmp_path, X, y, 3, colluding=0)
    model = PrivatePCA(n_components=5, epsilon=8.0, delta=1e-5, bounds=BOUNDS)
    given = configuration(model, tmp_path, 3, colluding=0, dropouts=1)
    given |= {"wait-seconds": LONG, "round-seconds": LONG}
    app = tmp_path / "app"
    (app / "sfumato_sums").mkdir(parents=True)
    (app / "pyproject.toml").write_text(
        APP + "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())
    )
    for side in ("client_app", "server_app"):
        text = f"from sfumato.federated.flower import {side}\n\napp = {side}()\n"
        (app / "sfumato_sums" / f"{side}.py").write_text(text)
    (app / "sfumato_sums" / "__init__.py").touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path / "flower-home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{program}.log").open("ab") as log:
            command = [str(programs / program), "--insecure", *arguments]
            options: dict[str, Any] = {"env": environment, "stdout": log, "stderr": log}
            started.append(subprocess.Popen(command, start_new_session=True, **options))
        return started[-1]

    def flwr(*arguments: str) -> str:
        command = [str(programs / "flwr"), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    try:
        start("flower-superlink", "--host", "127.0.0.1", "--port", str(port))
        wait_until(lambda: flwr("list", "here", "--format", "json"))
        nodes = []
        for number in range(3):
            party = f"party={str(tmp_path / f'party-{number}.toml')!r}"
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                own = str(probe.getsockname()[1])
            link = f"127.0.0.1:{port}"
            nodes.append(
                start(
                    "flower-supernode", "--superlink", link, "--port", own, "--node-config", party
                )
            )
        assert "run-id" in flwr("run", str(app), "here", "--format", "json")
        sessions = tmp_path / "releases-2" / "sessions"
        wait_until(lambda: sessions.exists() and any(sessions.glob("*.json")))
        (tmp_path / "rows-2.npz").unlink()  # its rows are a pipe now that nobody fills
        os.mkfifo(tmp_path / "rows-2.npz")
        wait_until(lambda: any((tmp_path / "releases-0" / "journal").glob("*.decision")))
        os.killpg(nodes[2].pid, signal.SIGKILL)
        wait_until((tmp_path / "out" / "federation.json").exists)
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    told = json.loads((tmp_path / "out" / "federation.json").read_text())
    assert len(told["sums"]) == 1
    assert set(told["sums"][0]["included"]) >= {"hospital-0", "hospital-1"}
    assert load(tmp_path / "out" / "global.sfumato").components_.shape == (5, 64)
    assert all(7.9 < each <= 8 for each in spent(tmp_path, 3))
