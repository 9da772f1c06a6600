"""Sign-in with an office's own accounts: OpenID Connect, authorization code with PKCE.

Who a person is says the provider; what she may do says a claim with her groups. The library `jwt`
checks signatures; nothing of the provider's tokens is kept.
"""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

from sfumato.exceptions import InvalidInputError
from sfumato.service.access import ROLES, ForbiddenError
from sfumato.service.curation import check_name
from sfumato.service.store import NotFoundError, Store

MINUTES = 10  # to sign in at the provider
ALGORITHMS = ["RS256", "ES256", "PS256", "EdDSA"]  # signatures with public keys only
MAX_PENDING = 10_000


@dataclass
class SignOn:
    """A provider of accounts.

    issuer: Its address, as it stands in its tokens.
    client_id, client_secret: What the provider knows this service by.
    roles: The role of each group; a person in several has the first of officer, auditor, analyst.
    claim: The claim that lists groups.
    name_claim: The claim that names the person.
    http (httpx.Client): For tests.
    """

    issuer: str
    client_id: str
    client_secret: str
    roles: Mapping[str, str]
    claim: str = "groups"
    name_claim: str = "preferred_username"
    http: Any = None
    _pending: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SignOn:
        """Read the settings of a provider; roles are checked.

        record: Keys ``issuer``, ``client_id``, ``client_secret``, ``roles``, ``claim``,
            ``name_claim``.
        """
        known = {"issuer", "client_id", "client_secret", "roles", "claim", "name_claim"}
        missing = {"issuer", "client_id", "client_secret", "roles"} - set(record)
        unknown = set(record) - known
        if missing or unknown:
            raise InvalidInputError(
                f"The provider's file lacks {sorted(missing)}, or has unknown {sorted(unknown)}."
            )
        if not set(dict(record["roles"]).values()) <= set(ROLES):
            raise InvalidInputError(f"'roles' must give groups one of {', '.join(ROLES)}.")
        return cls(**dict(record))

    def begin(self, back: str) -> tuple[str, str]:
        """Return the address at the provider to which a browser is sent, and its state.

        back: The address of this service to which it comes back.
        Returns: Good once; the browser must bring the state back in a cookie as well.
        """
        state, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        with self._lock:
            moment = time.monotonic()
            kept = {k: v for k, v in self._pending.items() if v[2] > moment}
            if len(kept) >= MAX_PENDING:
                raise ForbiddenError("Too many are signing in. Try again in a few minutes.")
            self._pending = kept | {state: (verifier, nonce, moment + 60 * MINUTES)}
        challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": back,
            "scope": "openid profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        return f"{self._described()['authorization_endpoint']}?{urlencode(asked)}", state

    def finish(self, store: Store, state: str, code: str, back: str) -> str:
        """Change a code for the person, who is added or given her role of today.

        store: Of the service.
        state, code: As they came back.
        back: As it was sent.
        Returns: Her name.
        """
        import jwt

        with self._lock:
            verifier, nonce, until = self._pending.pop(state, ("", "", 0.0))
        if not verifier or until < time.monotonic():
            raise ForbiddenError("This sign-in was not begun here, or too long ago. Begin again.")
        about = self._described()
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "code_verifier": verifier,
        }
        try:
            answer = self._client().post(about["token_endpoint"], data=sent)
            token = answer.json()["id_token"]
            keys = jwt.PyJWKSet.from_dict(self._client().get(about["jwks_uri"]).json())
            key = keys[jwt.get_unverified_header(token)["kid"]]
            claims = jwt.decode(
                token,
                key.key,
                algorithms=ALGORITHMS,
                audience=self.client_id,
                issuer=self.issuer,
                options={"require": ["exp", "iat", "aud", "iss", "nonce"]},
            )
        except (jwt.PyJWTError, KeyError, ValueError, TypeError):
            raise ForbiddenError("The provider's answer is not valid.") from None
        if not secrets.compare_digest(str(claims["nonce"]), nonce):
            raise ForbiddenError("The provider's answer is not valid.")
        return self._known(store, claims)

    def _known(self, store: Store, claims: Mapping[str, Any]) -> str:
        """Return the person of some claims, with the role of her groups."""
        name, groups = str(claims.get(self.name_claim, "")), claims.get(self.claim) or []
        check_name("name", name)
        held = {self.roles[one] for one in groups if isinstance(one, str) and one in self.roles}
        role = next((one for one in ("officer", "auditor", "analyst") if one in held), None)
        if role is None:
            raise ForbiddenError("Your account is in no group of this service.")
        try:
            known = store.person(name)
        except NotFoundError:
            store.add_person("sign-on", name, role)
        else:
            if known["role"] != role:
                store.change_role("sign-on", name, role)
        return name

    def _described(self) -> dict[str, Any]:
        """Return what the provider says of itself."""
        if not self._about:
            place = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = self._client().get(place).json()
            if found.get("issuer") != self.issuer:
                raise ForbiddenError("The provider names another issuer.")
            self._about = found
        return self._about

    def _client(self) -> Any:
        if self.http is None:
            import httpx

            self.http = httpx.Client(timeout=10)
        return self.http
