"""What a party has released, kept so that a retried round gets the same answer.

Fresh noise for the same question would be a second release, paid for or not. So the reply to a
task and phase is written down before it is sent, and every further request for it gets the stored
one; a request of the same name with other settings is refused.

The folder belongs to the party. It holds released values only, never rows.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import FederationError
from sfumato.federated.messages import Reply, Request, read_reply, write_reply


class ReleaseStore:
    """A folder of releases and a log of messages.

    folder: Made if it does not exist; one per party.

    Notes
    -----
    The ledger is charged while `make` runs, before its noise is drawn. If the process dies after
    that and before the reply is on disk, the next request makes a new release and pays again: the
    first one was seen by nobody, so the ledger errs on the safe side.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def released(self, request: Request, make: Callable[[], Reply]) -> Reply:
        """Return the stored reply to `request`, or `make` it, store it and return it."""
        with self._one_round_at_a_time(request.task):
            stored = self.find(request)
            if stored is not None:
                return stored
            reply = make()
            self._keep(request, reply)
            return reply

    def find(self, request: Request) -> Reply | None:
        """Return the stored reply to exactly this request, None if its task has none."""
        path = self._path(request, ".release")
        if not path.exists():
            return None
        stored = path.read_bytes()
        if stored.split(maxsplit=1)[:1] != [request.fingerprint().encode()]:
            raise FederationError(
                f"The release '{request.phase}' of the task '{request.task}' was made with other "
                "settings. It is not made a second time; a different task needs another name."
            )
        return _reply_in(stored, request)

    def earlier(self, request: Request, phase: str) -> Reply | None:
        """Return what another phase of the same task released, None if it was not made."""
        path = self._path(Request(request.task, phase), ".release")
        if not path.exists():
            return None
        return _reply_in(path.read_bytes(), Request(request.task, phase))

    def require_free(self, request: Request, phase: str) -> None:
        """Refuse a task whose name has served a task of another kind: each would cost in full."""
        if self._path(Request(request.task, phase), ".release").exists():
            raise FederationError(
                f"The name '{request.task}' has served another kind of task; use another name."
            )

    def log(self, request: Request, reply: Reply) -> None:
        """Write one line about a message that leaves: what for, how large, which digest."""
        data = write_reply(reply)
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "task": str(request.task)[:256],  # whatever came: it may not have been read
            "phase": str(request.phase)[:256],
            "refusal": reply.refusal,
            "arrays": {name: list(array.shape) for name, array in reply.arrays.items()},
            "bytes": len(data),
            "sha256": _digest(data),
        }
        with (self.folder / "messages.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _keep(self, request: Request, reply: Reply) -> None:
        with atomic_write(self._path(request, ".release")) as file:
            data = write_reply(reply)
            file.write(f"{request.fingerprint()} {_digest(data)}\n".encode() + data)

    def _path(self, request: Request, suffix: str) -> Path:
        # A digest: the coordinator chooses the name and must not choose a path.
        digest = hashlib.sha256(f"{request.task}\n{request.phase}".encode()).hexdigest()
        return self.folder / f"{digest[:32]}{suffix}"

    @contextmanager
    def _one_round_at_a_time(self, task: str) -> Iterator[None]:
        """Hold the lock of a task, for all its rounds: a later one depends on an earlier."""
        with self._path(Request(task, "all rounds"), ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released by the system if the process dies
            yield


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _reply_in(stored: bytes, request: Request) -> Reply:
    """Read a reply that was stored; one that is damaged is never made a second time."""
    head, _, data = stored.partition(b"\n")
    reply = None
    if head.split(b" ")[1:] == [_digest(data).encode()]:
        with suppress(Exception):  # whatever reading a damaged archive raises
            reply = read_reply(data)
    if reply is None:
        raise FederationError(
            f"The stored release '{request.phase}' of the task '{request.task}' is damaged. It is "
            "not made a second time; put its file back, or begin a task of another name."
        )
    return reply
