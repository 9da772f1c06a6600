"""Rows that get their noise one by one: a map and no sum, so noise is drawn where the rows lie.

For records in parts, each part is made noisy by its worker and sent to the process that has
charged the ledger. A task may be run twice there, so an answer is stored before it is given, and a
task that is run again gives the stored bytes; where the worker has gone with them, the first
answer of a part that arrives is kept, and every later one is dropped unread.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import EngineError
from sfumato.ledger.receipt import Chargeable, Receipt
from sfumato.sums.partitions import ALIKE, DRAWN, PartitionedRecords, Partitions
from sfumato.sums.records import Records

START = b"sfumato noisy rows 1\n"
Rows = NDArray[np.float64]
Codes = NDArray[np.intp]


class RowNoise(Protocol):
    """Noise on rows, each by itself: a public, frozen object that can be pickled."""

    def mechanisms(self) -> Sequence[Any]:
        """Return what is drawn from, in the order of the draws."""

    def released(self, rows: Rows, codes: Codes, ledger: Chargeable | None) -> tuple[Rows, Codes]:
        """Return rows and codes with noise; `ledger` is None if charged elsewhere."""


def release_rows(
    records: Records, noise: RowNoise, receipt: Receipt, n_classes: int
) -> tuple[Rows, Codes]:
    """Release every row with noise that `receipt` has paid for."""
    if not isinstance(records, PartitionedRecords):
        rows, codes = records._in_place()
        return noise.released(rows, codes, receipt)
    if records.is_remote:
        receipt.only_if(ALIKE)
    for mechanism in noise.mechanisms():  # [E3] one draw of each for all parts together
        receipt.charge(mechanism.event(), unit=mechanism.unit, relation=mechanism.relation)
    try:
        return _of_all_parts(records, noise, n_classes)
    except EngineError as error:
        raise EngineError(f"{error} {DRAWN}", receipt=receipt) from None


def _of_all_parts(
    records: PartitionedRecords, noise: RowNoise, n_classes: int
) -> tuple[Rows, Codes]:
    partitions: Partitions = records._partitions
    task = PartNoise(records._part, noise, secrets.token_hex(16))
    found: dict[int, tuple[Rows, Codes]] = {}
    for message in partitions.map(task):
        number, rows, codes = _opened(message, task.name, partitions.n_parts, records.width)
        if number in found:  # [E4] a second draw: dropped, and no number of it is looked at
            continue
        if len(codes) and not 0 <= codes.min() <= codes.max() < n_classes:
            raise EngineError("A worker sent something that is not labels.")
        found[number] = rows, codes
        if partitions.progress is not None:
            partitions.progress(len(found), partitions.n_parts)
    if len(found) != partitions.n_parts:
        raise EngineError(
            f"{partitions.n_parts - len(found)} of {partitions.n_parts} parts of the records were "
            "not released."
        )
    in_order = [found[number] for number in range(partitions.n_parts)]
    rows, codes = (np.concatenate(each) for each in zip(*in_order, strict=True))
    if records.public_rows not in (None, len(rows)):
        raise EngineError("The number of records changed while they were read.")
    return rows, codes


@dataclass(frozen=True)
class PartNoise:
    """The task of a map: give one part with noise, once in a process.

    part (_Part): How batches become records.
    noise: What is added.
    name: The public name of the map.
    """

    part: Any
    noise: RowNoise
    name: str

    def __call__(self, number: int, batches: Iterable[Any]) -> bytes:
        """Return what was drawn for this part, or draw it now."""
        return ANSWERS.given((self.name, number), lambda: self._drawn(number, batches))

    def _drawn(self, number: int, batches: Iterable[Any]) -> bytes:
        blocks = [(rows, codes) for rows, codes, _ in self.part.records(batches)._blocks()]
        rows = np.concatenate([np.empty((0, self._width)), *(rows for rows, _ in blocks)])
        codes = np.concatenate([np.empty(0, dtype=np.intp), *(codes for _, codes in blocks)])
        noisy, labels = self.noise.released(rows, codes, None) if len(rows) else (rows, codes)
        header = json.dumps({"task": self.name, "part": number, "shape": list(noisy.shape)})
        bodies = noisy.astype("<f8").tobytes(), labels.astype("<i8").tobytes()
        return b"".join([START, header.encode(), b"\n", *bodies])

    @property
    def _width(self) -> int:
        return int(self.part.width)


class _Answers:
    """What this process has drawn for the parts of the latest map."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, int], bytes] = {}
        self._locks: dict[tuple[str, int], threading.Lock] = {}
        self._lock = threading.Lock()

    def given(self, key: tuple[str, int], draw: Callable[[], bytes]) -> bytes:
        """Return the stored answer, or store one before it is given."""
        with self._lock:
            for other in [each for each in self._locks if each[0] != key[0]]:
                self._locks.pop(other)  # of an earlier map
                self._stored.pop(other, None)
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:  # the same task a second time waits for the first
            if key not in self._stored:
                self._stored[key] = draw()
            return self._stored[key]


ANSWERS = _Answers()


def _opened(message: Any, task: str, n_parts: int, width: int) -> tuple[int, Rows, Codes]:
    try:
        content = bytes(message)
        end = content.index(b"\n", len(START))
        header = json.loads(content[len(START) : end]) if content.startswith(START) else {}
        number, shape = int(header["part"]), tuple(map(int, header["shape"]))
        body = content[end + 1 :]
    except (ValueError, KeyError, TypeError):
        raise EngineError("A worker sent something that is not noisy rows.") from None
    if header.get("task") != task or not 0 <= number < n_parts:
        raise EngineError("A worker has answered another task than it was given.")
    if len(shape) != 2 or shape[1] != width or len(body) != 8 * (math.prod(shape) + shape[0]):
        raise EngineError("A worker has sent noisy rows of another shape.")
    rows = np.frombuffer(body, "<f8", math.prod(shape)).reshape(shape)
    codes = np.frombuffer(body, "<i8", offset=8 * math.prod(shape)).astype(np.intp)
    if not np.isfinite(rows).all():
        raise EngineError("A worker sent something that is not noisy rows.")
    return number, rows.astype(np.float64), codes
