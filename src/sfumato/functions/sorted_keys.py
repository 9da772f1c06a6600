"""Whole numbers kept in order, with the two neighbours of a new one found in O(log i)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

__all__ = ["SortedKeys"]

FULL = 1024  # a bucket is split in two when it has grown to this


class SortedKeys:
    """A list of short sorted lists: an insertion moves one short list, however many keys there are.

    Parameters
    ----------
    keys : iterable of int
        Different whole numbers.

    Examples
    --------
    >>> keys = SortedKeys([10, 30])
    >>> keys.insert(20)
    (10, 30)
    >>> keys.insert(5)
    (None, 10)
    """

    def __init__(self, keys: Iterable[int] = ()) -> None:
        ordered = sorted(keys)
        half = FULL // 2
        self._buckets = [ordered[i : i + half] for i in range(0, len(ordered), half)]
        self._last = [bucket[-1] for bucket in self._buckets]

    def insert(self, key: int) -> tuple[int | None, int | None]:
        """Put in a new key and give its neighbours, None where there is none."""
        if not self._buckets:
            self._buckets, self._last = [[key]], [key]
            return None, None
        number = min(bisect_left(self._last, key), len(self._buckets) - 1)
        bucket = self._buckets[number]
        place = bisect_left(bucket, key)
        left = bucket[place - 1] if place else self._last[number - 1] if number else None
        right = bucket[place] if place < len(bucket) else None  # only at the very end
        insort(bucket, key)
        self._last[number] = bucket[-1]
        if len(bucket) >= FULL:
            self._split(number)
        return left, right

    def _split(self, number: int) -> None:
        bucket = self._buckets[number]
        half = len(bucket) // 2
        self._buckets[number : number + 1] = [bucket[:half], bucket[half:]]
        self._last[number : number + 1] = [bucket[half - 1], bucket[-1]]
