"""Shamir's shares of a secret of 32 bytes: any `threshold` of them give it, fewer say nothing.

The secret is the value at 0 of a random polynomial of degree ``threshold - 1`` over the field of
``2**521 - 1`` elements, a share its value at another place. PyCryptodome has shares of 16 bytes
only, and is no dependency otherwise; nothing else is maintained.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import lru_cache

from sfumato.exceptions import FederationError

PRIME = 2**521 - 1
SECRET_BYTES = 32
SHARE_BYTES = 66


def shares_of(secret: bytes, *, threshold: int, places: int) -> list[bytes]:
    """Return the shares at the places 1, 2, ..., `places`."""
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= places:
        raise FederationError("A secret has 32 bytes, and no more shares are needed than made.")
    coefficients = [int.from_bytes(secret, "big")]
    coefficients += [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    return [_value(coefficients, place).to_bytes(SHARE_BYTES, "big") for place in _places(places)]


def rebuilt(shares: Mapping[int, bytes], *, threshold: int) -> bytes:
    """Return the secret of shares by their places."""
    if len(shares) < threshold:
        raise FederationError(f"{len(shares)} shares were given, {threshold} are needed.")
    points = [(place, int.from_bytes(share, "big")) for place, share in sorted(shares.items())]
    used = points[:threshold]
    for place, value in points[threshold:]:
        if _at(used, place) != value:
            raise FederationError("Shares of one secret do not agree with one another.")
    secret = _at(used, 0)
    if secret >= 2 ** (8 * SECRET_BYTES):
        raise FederationError("Shares of one secret do not agree with one another.")
    return secret.to_bytes(SECRET_BYTES, "big")


def _places(number: int) -> range:
    return range(1, number + 1)


def _value(coefficients: list[int], place: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * place + coefficient) % PRIME
    return value


def _at(points: list[tuple[int, int]], place: int) -> int:
    """Lagrange's interpolation of the points, at one place."""
    weights = _weights(tuple(here for here, _ in points), place)
    return sum(value * weight for (_, value), weight in zip(points, weights, strict=True)) % PRIME


@lru_cache(maxsize=256)
def _weights(places: tuple[int, ...], place: int) -> tuple[int, ...]:
    """Return Lagrange's weights: all secrets of a session are rebuilt at the same places."""
    found = []
    for here in places:
        above = below = 1
        for other in places:
            if other != here:
                above = above * (place - other) % PRIME
                below = below * (here - other) % PRIME
        found.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(found)
