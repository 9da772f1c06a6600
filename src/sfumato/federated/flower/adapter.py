"""Flower's message API around the pure protocol: requests out, replies in, nothing else.

One message a party and round. What a message holds is a JSON header and arrays; Flower's own
differential privacy and secure aggregation are not used (see the how-to for the reasons).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from logging import INFO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from sfumato.exceptions import FederationError
from sfumato.federated.carrying import described
from sfumato.federated.coordination import run_task
from sfumato.federated.hulls import HullTask
from sfumato.federated.messages import Reply, Request
from sfumato.federated.party import Party
from sfumato.federated.party_file import party_of_context
from sfumato.federated.results import write_failure, write_result, write_sums
from sfumato.federated.sums_task import SumsTask
from sfumato.models.saving import load

POLL_SECONDS = 0.2
ARRAYS, HEADER = "arrays", "header"


def client_app(kind: str) -> ClientApp:
    """Make the ClientApp that answers the phases of a kind of task for the party of its node."""
    app = ClientApp()

    @app.train()
    def answer(message: Message, context: Context) -> Message:
        party = party_of_context(dict(context.node_config), dict(context.run_config))
        reply = _answer(party, message.content, kind)
        return Message(content=content_of(_header_of(reply), reply.arrays), reply_to=message)

    return app


def _answer(party: Party, content: RecordDict, kind: str) -> Reply:
    try:
        request = request_in(content)
    except Exception:  # whatever reading what a stranger sent may raise
        return Reply(party.name, refusal="The request cannot be read.")
    if not str(request.phase).startswith(f"{kind}."):
        return Reply(party.name, refusal="This app knows no such phase.")
    return party.answer(request)


def server_app(kind: str) -> ServerApp:
    """Make the ServerApp that waits for parties, runs the task's rounds and writes the result."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = dict(context.run_config)
        wait_for_parties(grid, int(config["parties"]), float(config["wait-seconds"]))

        names = [name for name in str(config["party-names"]).split(",") if name]
        if kind == SumsTask.kind:
            _add_up(grid, config, names)
            return

        def ask(request: Request) -> list[Reply]:
            replies = ask_all(grid, request, float(config["round-seconds"]))
            return replies + absent(replies, names, int(config["parties"]))

        task = HullTask(str(config["task"]), load(str(config["estimator"])), str(config["serve"]))
        try:
            federation = run_task(task, ask, min_parties=int(config["min-parties"]))
        except FederationError as error:
            write_failure(error, config)
            raise
        for each in federation.rounds:
            log(INFO, "%s", each)
        write_result(federation, config)

    return app


def _add_up(grid: Grid, config: dict[str, Any], names: Sequence[str]) -> None:
    """Fit an estimator to sums over the parties, and write what came of it."""
    task = SumsTask(
        str(config["task"]),
        load(str(config["estimator"])),
        str(config["trust"]),
        int(config["colluding"]),
        int(config["dropouts"]),
    )
    try:
        carrier = GridCarrier(grid, task, float(config["round-seconds"]))
        missing = sorted(set(names) - set(carrier.names))
        if missing:
            raise FederationError(f"{', '.join(missing)} did not answer.")
        totals = Path(str(config["out"])) / "totals"
        model, federation = task.fit(carrier, totals, lambda each: log(INFO, "%s", each))
    except FederationError as error:
        write_failure(error, config)
        raise
    write_sums(model, federation, config)


class GridCarrier:
    """Carries requests to the parties of Flower's nodes; nodes are known by what they say first.

    grid: Flower's.
    task: What is learned.
    seconds: Most that a step may take; Flower reports a node that has died after about a minute.
    """

    conditions: Sequence[str] = ()

    def __init__(self, grid: Grid, task: SumsTask, seconds: float) -> None:
        self._grid, self._seconds = grid, seconds
        self._hello = described(
            task.name, str(task.estimator.relation), task.trust, task.estimator.bounds
        )
        nodes = sorted(grid.get_node_ids())
        replies = exchange(grid, dict.fromkeys(nodes, self._hello), seconds)
        there = {node: r for node, r in replies.items() if r.party != _unheard(node)}
        self._heard = {reply.party: reply for reply in there.values()}
        self._nodes = {reply.party: node for node, reply in there.items()}
        if len(self._nodes) != len(there):
            raise FederationError("Two nodes have the name of one party.")
        self.names: Sequence[str] = sorted(self._nodes)

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        """Carry a request to each party named; those who do not answer are left out."""
        if all(request == self._hello for request in requests.values()):
            return {name: self._heard[name] for name in requests}
        asked = {self._nodes[name]: request for name, request in requests.items()}
        replies = exchange(self._grid, asked, self._seconds).values()
        return {reply.party: reply for reply in replies if reply.party in requests}


def exchange(grid: Grid, requests: Mapping[int, Request], seconds: float) -> dict[int, Reply]:
    """Send a request to each node and return its reply, or a refusal if none came in time."""
    messages = [
        Message(content=_content(request), message_type="train", dst_node_id=node)
        for node, request in requests.items()
    ]
    # An error reply comes from the link, not from the node: only the number tells who it was.
    asked = dict(zip(grid.push_messages(messages), requests, strict=True))
    end = time.monotonic() + seconds
    found = {node: Reply(_unheard(node), refusal="No answer in time.") for node in requests}
    while asked and time.monotonic() < end:
        for message in grid.pull_messages(list(asked)):
            node = asked.pop(message.metadata.reply_to_message_id)
            found[node] = reply_in(message, node)
        if asked:
            time.sleep(POLL_SECONDS)
    return found


def _unheard(node: int) -> str:
    """Return the name of a node that has not said whose it is."""
    return f"node {node}"


def wait_for_parties(grid: Grid, n_parties: int, seconds: float) -> None:
    """Wait until so many nodes are connected; go on with fewer when the time is over."""
    end = time.monotonic() + seconds
    while len(list(grid.get_node_ids())) < n_parties and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    found = len(list(grid.get_node_ids()))
    if found == 0:
        raise FederationError(f"No party connected within {seconds:g} seconds.")
    if found < n_parties:
        log(INFO, "%d of %d parties are connected; going on with them", found, n_parties)


def ask_all(grid: Grid, request: Request, seconds: float) -> list[Reply]:
    """Send a request to every connected node, also to late ones."""
    nodes = sorted(grid.get_node_ids())
    return list(exchange(grid, dict.fromkeys(nodes, request), seconds).values())


def absent(replies: Sequence[Reply], names: Sequence[str], n_parties: int) -> list[Reply]:
    """Return a refusal for every party that was expected and is not heard of, by name if known."""
    told = {reply.party for reply in replies}
    if names:
        missing = [name for name in names if name not in told]
    else:
        missing = [f"absent party {i + 1}" for i in range(n_parties - len(replies))]
    return [Reply(name, refusal="No reply came from this party.") for name in missing]


def reply_in(message: Message, node: int) -> Reply:
    """Read a party's reply; whatever it sent, the others are not affected."""
    if message.has_error():
        return Reply(_unheard(node), refusal=f"Not reached: {message.error.reason}")
    try:
        header = _read_header(message.content)
        arrays = {name: array.numpy() for name, array in message.content[ARRAYS].items()}
        return Reply(str(header["party"]), dict(header["facts"]), arrays, header["refusal"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Reply(_unheard(node), refusal=f"A reply that cannot be read: {type(error).__name__}")


def _content(request: Request) -> RecordDict:
    return content_of(
        {"task": request.task, "phase": request.phase, "settings": dict(request.settings)},
        request.arrays,
    )


def request_in(content: RecordDict) -> Request:
    """Read a request at the party."""
    header = _read_header(content)
    arrays = {name: array.numpy() for name, array in content[ARRAYS].items()}
    return Request(header["task"], header["phase"], header["settings"], arrays)


def content_of(header: dict[str, Any], arrays: Any) -> RecordDict:
    """Pack a header and arrays into Flower's records."""
    packed = {name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return RecordDict(
        {
            HEADER: ConfigRecord({"json": json.dumps(header, allow_nan=False)}),
            ARRAYS: ArrayRecord(packed),
        }
    )


def _header_of(reply: Reply) -> dict[str, Any]:
    return {"party": reply.party, "facts": dict(reply.facts), "refusal": reply.refusal}


def _read_header(content: RecordDict) -> dict[str, Any]:
    return dict(json.loads(str(content[HEADER]["json"])))
