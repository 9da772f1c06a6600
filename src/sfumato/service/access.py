"""Who may do what: tokens, sessions and roles, all checked against `service.toml` at each request.

A token is ``sfm_ID_SECRET``. The secret has 256 random bits and is stored as its SHA-256 only; it
is compared in constant time. A session is a signed cookie that names a token and ends with it.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from fastapi import HTTPException, Request

from sfumato.exceptions import InvalidInputError
from sfumato.service.config import Settings
from sfumato.service.store import NotFoundError, Record, Store, now

ROLES = ("officer", "analyst", "auditor")
_NOBODY: Record = {"digest": sha256(b"nobody").hexdigest()}


@dataclass(frozen=True)
class Person:
    """Who asks, by which token, and with which rights."""

    name: str
    role: str
    scope: str
    token: str

    def has(self, *roles: str) -> bool:
        """Return whether the person has one of these roles; an owner has all."""
        return self.role in roles or self.role == "owner"


def make_token(settings: Settings, store: Store, person: str, scope: str, days: float) -> str:
    """Make a token of a declared person and return its text, which is kept nowhere."""
    if person not in settings.config.people:
        raise InvalidInputError(f"'{settings.file}' declares no person {person!r}.")
    identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    expires = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
    digest = sha256(secret.encode()).hexdigest()
    told = {"scope": scope, "expires": expires}
    record = {"id": identity, "person": person, "digest": digest, **told}
    record |= {"state": "good", "created": expires}
    store.add("operator", "token", "make token", record, detail={**told, "person": person})
    return f"sfm_{identity}_{secret}"


def person_of(settings: Settings, store: Store, text: str) -> Person:
    """Return the person of a token; one answer for everything that is wrong with it."""
    prefix, _, rest = text[:200].partition("_")
    identity, _, secret = rest.partition("_")
    found = _stored(store, identity) if prefix == "sfm" and identity.isalnum() else None
    digest = sha256(secret.encode(errors="replace")).hexdigest()
    if not hmac.compare_digest(digest, (found or _NOBODY)["digest"]) or found is None:
        raise HTTPException(401, "Sign in with a valid token.")
    return _current(settings, found)


def _stored(store: Store, identity: str) -> Record | None:
    with suppress(NotFoundError):
        return store.get("token", identity)
    return None


def _current(settings: Settings, token: Record | None) -> Person:
    """Return the person of a stored token, as declared now."""
    member = None if token is None else settings.config.people.get(token["person"])
    if token is None or member is None or token["state"] != "good" or token["expires"] <= now():
        raise HTTPException(401, "Sign in with a valid token.")
    return Person(token["person"], member.role, token["scope"], token["id"])


def signed_in(request: Request, settings: Settings, store: Store) -> Person:
    """Return who asks: by a token, by the header of a trusted proxy, or by a session."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    header = settings.config.service.sign_in_header
    try:
        if kind.lower() == "bearer":
            who = person_of(settings, store, text.strip())
        elif header is not None and header in request.headers:
            name, *others = request.headers.getlist(header)
            member = settings.config.people.get(name)
            if member is None or others:  # one of them may be the stranger's own
                raise HTTPException(401, "No person of this name is declared.")
            who = Person(name, member.role, "write", "header")
        else:
            named = request.session.get("token")
            who = _current(settings, None if named is None else _stored(store, str(named)))
    except HTTPException:
        admit(request)
        raise
    admit(request, who.name)
    return who


def admit(request: Request, key: str | None = None) -> None:
    """Refuse more requests per second than are allowed, of a person or of a stranger's address."""
    limiter: Limiter = request.app.state.limiter
    if not limiter.admits(key or f"address {request.client.host if request.client else ''}"):
        raise HTTPException(429, "Too many requests. Try again in a few seconds.")


class Limiter:
    """At most this many requests per second on average for each key; bursts of ten seconds."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def admits(self, key: str) -> bool:
        """Return whether one more request of this key is answered."""
        burst, moment = 10 * self._rate, time.monotonic()
        with self._lock:
            if len(self._left) > 10_000:  # those who were not seen for a while are forgotten
                self._left = {k: v for k, v in self._left.items() if moment - v[1] < 60}
            left, last = self._left.get(key, (burst, moment))
            left = min(burst, left + (moment - last) * self._rate) - 1
            self._left[key] = (max(left, -1.0), moment)
        return left >= 0
