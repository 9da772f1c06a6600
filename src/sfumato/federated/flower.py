"""Flower's message API around the pure protocol: requests out, replies in, nothing else.

Needs the extra ``sfumato[federated]``. A Flower app of ours is ``app = client_app()`` and
``app = server_app()``; the how-to page has its files and how it is started. One message a party and
round holds a JSON header and arrays. Flower's own differential privacy and secure aggregation are
not used.
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

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import FederationError
from sfumato.federated.federation import Federation, describe_request
from sfumato.federated.messages import Reply, Request
from sfumato.federated.party import Party
from sfumato.federated.party_file import read_party
from sfumato.models.saving import load, save

POLL_SECONDS = 0.2
ARRAYS, HEADER = "arrays", "header"


# At the party ------------------------------------------------------------------------------------


def client_app() -> ClientApp:
    """Make the ClientApp that answers requests for sums, for the party of its node.

    A node names the file of its party: ``--node-config "party='/srv/clinic/party.toml'"``.
    """
    app = ClientApp()

    @app.train()
    def answer(message: Message, context: Context) -> Message:
        if "party" not in context.node_config:
            raise FederationError("The node's configuration does not name the file of its party.")
        reply = answer_content(read_party(str(context.node_config["party"])), message.content)
        header = {"party": reply.party, "facts": dict(reply.facts), "refusal": reply.refusal}
        return Message(content=to_content(header, reply.arrays), reply_to=message)

    return app


def answer_content(party: Party, content: RecordDict) -> Reply:
    """Return what a party answers to the content of a message, whatever it holds."""
    try:
        request = request_from(content)
    except Exception:  # whatever reading what a stranger sent may raise
        return Reply(party.name, refusal="The request cannot be read.")
    if not str(request.phase).startswith("sums."):
        return Reply(party.name, refusal="This app knows no such phase.")
    return party.answer(request)


# At the coordinator ------------------------------------------------------------------------------


def server_app() -> ServerApp:
    """Make the ServerApp that waits for parties, fits an estimator to their sums and writes it.

    Its run configuration: ``task``, ``estimator`` (a file of `sfumato.save`), ``out`` (a folder),
    ``parties`` (how many), ``wait-seconds``, ``round-seconds``, ``party-names`` (separated by
    commas, or empty), ``trust``, ``colluding``, ``dropouts``.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = dict(context.run_config)
        out = Path(str(config["out"]))
        out.mkdir(parents=True, exist_ok=True)
        try:
            _wait_for_parties(grid, int(config["parties"]), float(config["wait-seconds"]))
            told = _fit_sums(grid, config, out)
        except FederationError as error:
            failed = {"task": config["task"], "failed": str(error)}
            with atomic_write(out / "failed.json") as file:
                file.write(json.dumps(failed, indent=2).encode())
            raise
        with atomic_write(out / "federation.json") as file:
            file.write(json.dumps(told, indent=2).encode())
        (out / "failed.json").unlink(missing_ok=True)

    return app


def _fit_sums(grid: Grid, config: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Fit an estimator to sums over the parties; write the model and the sums."""
    model = load(str(config["estimator"])).set_params(ledger=None)
    trust, relation = str(config["trust"]), str(model.relation)
    hello = describe_request(str(config["task"]), relation, trust, model.bounds)
    carrier = GridCarrier(grid, hello, float(config["round-seconds"]))
    names = [name for name in str(config["party-names"]).split(",") if name]
    missing = sorted(set(names) - set(carrier.names))
    if missing:
        raise FederationError(f"{', '.join(missing)} did not answer.")
    federation = Federation(
        carrier,
        bounds=model.bounds,
        trust=trust,
        task=str(config["task"]),
        relation=relation,
        colluding=int(config["colluding"]),
        dropouts=int(config["dropouts"]),
        totals=out / "totals",
        watch=lambda each: log(INFO, "%s", each),
    )
    save(model.fit(federation), out / "global.sfumato")
    with atomic_write(out / "sums.npz") as file:
        np.savez(file, *federation.released)
    return federation.to_dict(model.guarantee_)


class GridCarrier:
    """Carries requests to the parties of Flower's nodes; nodes are known by what they say first.

    hello: The first request to everybody.
    seconds: Most that a step may take; Flower reports a node that has died after about a minute.
    """

    conditions: Sequence[str] = ()

    def __init__(self, grid: Grid, hello: Request, seconds: float) -> None:
        self._grid, self._seconds, self._hello = grid, seconds, hello
        nodes = sorted(grid.get_node_ids())
        replies = exchange(grid, dict.fromkeys(nodes, hello), seconds)
        there = {node: r for node, r in replies.items() if r.party != f"node {node}"}
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
        replies = exchange(self._grid, asked, self._seconds)
        found = {name: replies[self._nodes[name]] for name in requests}
        return {name: each for name, each in found.items() if each.party == name}


def exchange(grid: Grid, requests: Mapping[int, Request], seconds: float) -> dict[int, Reply]:
    """Send a request to each node and return its reply, or a refusal if none came in time."""
    messages = []
    for node, request in requests.items():
        settings = dict(request.settings)
        header = {"task": request.task, "phase": request.phase, "settings": settings}
        content = to_content(header, request.arrays)
        messages.append(Message(content=content, message_type="train", dst_node_id=node))
    # An error reply comes from the link, not from the node: only the number tells who it was.
    asked = dict(zip(grid.push_messages(messages), requests, strict=True))
    end = time.monotonic() + seconds
    found = {node: Reply(f"node {node}", refusal="No answer in time.") for node in requests}
    while asked and time.monotonic() < end:
        for message in grid.pull_messages(list(asked)):
            node = asked.pop(message.metadata.reply_to_message_id)
            found[node] = reply_from(message, node)
        if asked:
            time.sleep(POLL_SECONDS)
    return found


def _wait_for_parties(grid: Grid, n_parties: int, seconds: float) -> None:
    """Wait until that many nodes are connected; go on with fewer when the time is over."""
    end = time.monotonic() + seconds
    while len(list(grid.get_node_ids())) < n_parties and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    found = len(list(grid.get_node_ids()))
    if found == 0:
        raise FederationError(f"No party connected within {seconds:g} seconds.")
    if found < n_parties:
        log(INFO, "%d of %d parties are connected; going on with them", found, n_parties)


# Messages ----------------------------------------------------------------------------------------


def reply_from(message: Message, node: int) -> Reply:
    """Read a party's reply; whatever it sent, the others are not affected."""
    if message.has_error():
        return Reply(f"node {node}", refusal=f"Not reached: {message.error.reason}")
    try:
        header, arrays = _read_content(message.content)
        return Reply(str(header["party"]), dict(header["facts"]), arrays, header["refusal"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"A reply that cannot be read: {type(error).__name__}"
        return Reply(f"node {node}", refusal=why)


def request_from(content: RecordDict) -> Request:
    """Read a request at the party."""
    header, arrays = _read_content(content)
    return Request(header["task"], header["phase"], header["settings"], arrays)


def to_content(header: dict[str, Any], arrays: Any) -> RecordDict:
    """Pack a header and arrays into Flower's records."""
    packed = {name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()}
    text = ConfigRecord({"json": json.dumps(header, allow_nan=False)})
    return RecordDict({HEADER: text, ARRAYS: ArrayRecord(packed)})


def _read_content(content: RecordDict) -> tuple[dict[str, Any], dict[str, Any]]:
    header = dict(json.loads(str(content[HEADER]["json"])))
    return header, {name: array.numpy() for name, array in content[ARRAYS].items()}
