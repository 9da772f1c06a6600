"""What travels between the coordinator and a party: plain arrays and a JSON header, no code.

An engine (Flower, or this process in a simulation) only has to carry a `Request` there and a
`Reply` back. What a request may hold is `sfumato.federated.schema`.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import FederationError
from sfumato.models.base import PrivateEstimator
from sfumato.models.saving import load, stored_bytes
from sfumato.privacy.guarantee import Guarantee, Relation, Unit

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
        """Return a received array of this shape and type, with no number missing."""
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
        if found.dtype.kind == "f" and np.isnan(found).any():
            raise FederationError(f"{self.party} sent '{name}' with missing numbers.")
        return found

    def fact(self, name: str) -> Any:
        """Return a received fact, or say that it is missing."""
        if name not in self.facts:
            raise FederationError(f"{self.party} did not state '{name}'.")
        return self.facts[name]


def model_in(model: Any) -> NDArray[np.uint8]:
    """Return the bytes of the file that `sfumato.save` writes."""
    return np.frombuffer(stored_bytes(model), dtype=np.uint8)


def model_from(data: NDArray[np.uint8]) -> Any:
    """Rebuild a model from such bytes; they are data, whoever sent them, and never run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sfumato"
        path.write_bytes(np.asarray(data, dtype=np.uint8).tobytes())
        return load(path)


def promised_in(reply: Reply, asked: PrivateEstimator) -> Guarantee:
    """Return the guarantee that a reply states; it must be of the unit and relation asked for."""
    promised = Guarantee.from_dict(reply.fact("guarantee"))
    if (promised.unit, promised.relation) != (Unit(asked.unit), Relation(asked.relation)):
        raise FederationError(f"{reply.party} promises for another unit or relation.")
    return promised


def write_reply(reply: Reply) -> bytes:
    """Return a reply as the bytes of an .npz file."""
    header = _json({"party": reply.party, "facts": dict(reply.facts), "refusal": reply.refusal})
    file = io.BytesIO()
    members: dict[str, Any] = {HEADER: np.frombuffer(header, dtype=np.uint8), **reply.arrays}
    np.savez(file, **members)
    return file.getvalue()


def read_reply(data: bytes) -> Reply:
    """Read what `write_reply` gave."""
    with np.load(io.BytesIO(data), allow_pickle=False) as members:
        arrays = {name: members[name] for name in members.files}
    header = json.loads(arrays.pop(HEADER).tobytes())
    return Reply(header["party"], header["facts"], arrays, header["refusal"])


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()
