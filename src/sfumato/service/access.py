"""Who may do what: people, roles, tokens, and what ties a form to its session.

A token is ``sfm_ID_SECRET``. The secret has 256 random bits and is stored as its SHA-256 only; it
is compared in constant time. A session of the studio is a token in a cookie.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from sfumato.exceptions import SfumatoError
from sfumato.service.store import Store

ROLES = ("officer", "analyst", "auditor")
_NOBODY: dict[str, Any] = {"digest": sha256(b"nobody").hexdigest(), "expires": "", "revoked": 1}


class UnknownPersonError(SfumatoError):
    """No token, or one that is wrong, expired or revoked."""


class ForbiddenError(SfumatoError):
    """The role or the scope of the token does not allow this."""


@dataclass(frozen=True)
class Person:
    """Who asks, by which token, and with which rights."""

    name: str
    role: str
    scope: str
    token: str

    def require(self, *roles: str, writes: bool = True) -> None:
        """Raise unless the person has one of `roles`, and a token that may write if need be."""
        if self.role not in roles or (writes and self.scope not in ("all", "session")):
            raise ForbiddenError("Your role or the scope of your token does not allow this.")


def make_token(
    store: Store, by: str, person: str, *, hours: float, scope: str = "all", label: str = ""
) -> str:
    """Make a token and return its text, which is kept nowhere."""
    store.person(person)
    identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    expires = datetime.now(UTC) + timedelta(hours=hours)
    record = {
        "id": identity,
        "person": person,
        "digest": sha256(secret.encode()).hexdigest(),
        "expires": expires.isoformat(timespec="seconds"),
        "scope": scope,
        "label": label,
    }
    store.add_token(by, record)
    return f"sfm_{identity}_{secret}"


def person_of(store: Store, token: str, *, scopes: tuple[str, ...] = ("all", "read")) -> Person:
    """Return the person of a token; one answer for everything that is wrong with it."""
    prefix, _, rest = token[:200].partition("_")
    identity, _, secret = rest.partition("_")
    found = store.token(identity) if prefix == "sfm" and identity else None
    known = found or _NOBODY
    is_right = hmac.compare_digest(
        sha256(secret.encode(errors="replace")).hexdigest(), known["digest"]
    )
    is_current = not known["revoked"] and known["expires"] > datetime.now(UTC).isoformat()
    if not (found and is_right and is_current and found["scope"] in scopes):
        raise UnknownPersonError("Sign in with a valid token.")
    return Person(found["person"], found["role"], found["scope"], found["id"])


def csrf_token(secret: bytes, session: str) -> str:
    """Return the text that forms of a session carry."""
    return hmac.new(secret, session.encode(), sha256).hexdigest()


class Limiter:
    """At most so many requests per second on average for each key, with a burst of ten seconds."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def admits(self, key: str) -> bool:
        """Whether one more request of this key is answered."""
        burst, moment = 10 * self._rate, time.monotonic()
        with self._lock:
            if len(self._left) > 10_000:  # those who were not seen for a while are forgotten
                self._left = {k: v for k, v in self._left.items() if moment - v[1] < 60}
            left, last = self._left.get(key, (burst, moment))
            left = min(burst, left + (moment - last) * self._rate) - 1
            self._left[key] = (max(left, -1.0), moment)
        return left >= 0
