"""What travels between the coordinator and a party, and what a party keeps of it.

Plain arrays and a JSON header, no code: an engine (Flower, or this process in a simulation) only
has to carry a `Request` there and a `Reply` back. What a request may hold is `federated/schema.py`.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import FederationError

Arrays = Mapping[str, NDArray[Any]]
HEADER = "header"


@dataclass(frozen=True)
class Request:
    """What the coordinator asks every party in one round.

    task: Name of the task; a party makes the release of one task and phase once.
    phase: What is asked for, such as "hulls.fit".
    settings: Public settings, as JSON.
    arrays: Public arrays, which the settings name.
    """

    task: str
    phase: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)

    def fingerprint(self) -> str:
        """Digest of all that is asked for: equal requests are retries of one another."""
        digest = hashlib.sha256(_json([self.task, self.phase, dict(self.settings)]))
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(_json([name, str(array.dtype), list(array.shape)]))
            digest.update(array.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Reply:
    """What a party sends back: facts and released arrays, or the sentence why it refuses.

    party: Who answers.
    facts: Public facts, as JSON: the guarantee, the classes, the number of rows where it is public.
    arrays: What was released.
    refusal: Why nothing is sent.
    """

    party: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    refusal: str | None = None

    def array(self, name: str, shape: tuple[int | None, ...], kinds: str = "f") -> NDArray[Any]:
        """Return a received array of this shape and type, of finite numbers."""
        found = self.arrays.get(name)
        if found is None:
            raise FederationError(f"{self.party} sent no array '{name}'.")
        fits = len(found.shape) == len(shape) and all(
            wanted in (None, got) for wanted, got in zip(shape, found.shape, strict=True)
        )
        if not fits or found.dtype.kind not in kinds:
            raise FederationError(
                f"{self.party} sent '{name}' of shape {found.shape} and type {found.dtype}; "
                f"expected {shape}."
            )
        if not np.isfinite(found).all():
            raise FederationError(f"{self.party} sent '{name}' with numbers that are not finite.")
        return found

    def fact(self, name: str, kind: type = object) -> Any:
        """Return a received fact of this type, or say that it is missing."""
        if name not in self.facts or not isinstance(self.facts[name], kind):
            raise FederationError(f"{self.party} did not state a valid '{name}'.")
        return self.facts[name]

    def to_bytes(self) -> bytes:
        """Return the reply as an .npz file."""
        header = {"party": self.party, "facts": dict(self.facts), "refusal": self.refusal}
        file = io.BytesIO()
        members: dict[str, Any] = {HEADER: np.frombuffer(_json(header), np.uint8), **self.arrays}
        np.savez(file, **members)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Reply:
        """Read what `to_bytes` gave."""
        with np.load(io.BytesIO(data), allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        header = json.loads(arrays.pop(HEADER).tobytes())
        return cls(header["party"], header["facts"], arrays, header["refusal"])


class ReleaseStore:
    """What a party has released, kept so that a retried round gets the same answer.

    Fresh noise for the same question would be a second release, paid for or not. So the reply to a
    task and phase is written down before it is sent, and every further request for it gets the
    stored one; a request of the same name with other settings is refused. The folder belongs to
    the party. It holds released values only, never rows, and a log of messages.

    The ledger is charged while `make` runs, before its noise is drawn. If the process dies after
    that and before the reply is on disk, the next request makes a new release and pays again: the
    first one was not seen, so the ledger errs on the safe side.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def release_once(self, request: Request, make: Callable[[], Reply]) -> Reply:
        """Return the stored reply to `request`, or `make` it, store it and return it."""
        with self._one_round_at_a_time(request.task):
            path = self._path(request, ".release")
            if path.exists():
                fingerprint = path.read_bytes().split(maxsplit=1)[:1]
                if fingerprint != [request.fingerprint().encode()]:
                    raise FederationError(
                        f"The release '{request.phase}' of the task '{request.task}' was made with "
                        "different settings. It is not made a second time; a different task needs "
                        "a different name."
                    )
            stored = self.earlier(request, request.phase)
            if stored is not None:
                return stored
            reply = make()
            with atomic_write(path) as file:
                data = reply.to_bytes()
                digest = hashlib.sha256(data).hexdigest()
                file.write(f"{request.fingerprint()} {digest}\n".encode() + data)
            return reply

    def earlier(self, request: Request, phase: str) -> Reply | None:
        """Return what another phase of the same task released, None if it was not made.

        A release that is damaged is never made a second time.
        """
        path = self._path(Request(request.task, phase), ".release")
        if not path.exists():
            return None
        head, _, data = path.read_bytes().partition(b"\n")
        if head.split(b" ")[1:] == [hashlib.sha256(data).hexdigest().encode()]:
            with suppress(Exception):  # whatever reading a damaged archive raises
                return Reply.from_bytes(data)
        raise FederationError(
            f"The stored release '{phase}' of the task '{request.task}' is damaged. It is "
            "not made a second time; put its file back, or begin a task with another name."
        )

    def log(self, request: Request, reply: Reply) -> None:
        """Write one line about a message that leaves: what for, how large, which digest."""
        data = reply.to_bytes()
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "task": str(request.task)[:256],  # whatever came: it may not have been read
            "phase": str(request.phase)[:256],
            "refusal": reply.refusal,
            "arrays": {name: list(array.shape) for name, array in reply.arrays.items()},
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        with (self.folder / "messages.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

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


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()
