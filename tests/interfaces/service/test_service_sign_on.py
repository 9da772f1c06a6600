"""Sign-in with an office's accounts, at a provider that is made here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.service.sign_on import SignOn
from tests.interfaces.service.house import House

jwt = pytest.importorskip("jwt", reason="needs sfumato[service]")
ISSUER = "https://accounts.office.example"
ROLES = {"data-officers": "officer", "research": "analyst"}


class Provider(httpx.BaseTransport):
    """Names who signs in, with the claims that a test wants."""

    def __init__(self, **claims: Any) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self.key, self.claims, self.nonce = ec.generate_private_key(ec.SECP256R1()), claims, ""
        self.signing = self.key
        self.verifier = ""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("openid-configuration"):
            places = {"authorization_endpoint": f"{ISSUER}/begin", "issuer": ISSUER}
            places |= {"token_endpoint": f"{ISSUER}/token", "jwks_uri": f"{ISSUER}/keys"}
            return httpx.Response(200, json=places)
        if path == "/keys":
            public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
            return httpx.Response(200, json={"keys": [{**public, "kid": "1", "alg": "ES256"}]})
        self.verifier = parse_qs(request.read().decode())["code_verifier"][0]
        moment = int(time.time())
        usual = {"iss": ISSUER, "aud": "sfumato", "iat": moment, "exp": moment + 60}
        claims = {**usual, "nonce": self.nonce, **self.claims}
        token = jwt.encode(claims, self.signing, "ES256", headers={"kid": "1"})
        return httpx.Response(200, json={"id_token": token})


def signed_in(house: House, provider: Provider, *, state: str | None = None) -> httpx.Response:
    """Go to the provider and come back."""
    house.app.state.sign_on = SignOn(
        ISSUER, "sfumato", "secret", ROLES, http=httpx.Client(transport=provider)
    )
    sent = house.request("GET", "/sign-in/office")
    asked = parse_qs(urlsplit(sent.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    provider.nonce = provider.nonce or asked["nonce"][0]
    back = {"state": state or asked["state"][0], "code": "code"}
    cookie = {"Cookie": sent.headers["set-cookie"].split(";")[0]}
    other = house.request("GET", "/sign-in/back", params=back)  # in a browser that did not begin
    assert other.status_code == 403
    return house.request("GET", "/sign-in/back", params=back, headers=cookie)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Any:
    house = House(tmp_path_factory.mktemp("sign-on"))
    yield house
    house.close()


def test_groups_give_the_role_and_changed_groups_another(office: House) -> None:
    provider = Provider(preferred_username="eva", groups=["research", "others"])
    first = signed_in(office, provider)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert office.office.store.person("eva")["role"] == "analyst"
    session = {"Cookie": first.headers["set-cookie"].split(";")[0]}
    assert office.request("GET", "/", headers=session).status_code == 200
    signed_in(office, Provider(preferred_username="eva", groups=["data-officers"]))
    assert office.office.store.person("eva")["role"] == "officer"
    assert office.request("GET", "/", headers=session).headers["location"] == "/sign-in"


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": []},
        {"groups": ["strangers"]},
        {"groups": ["research"], "aud": "another"},
        {"groups": ["research"], "iss": "https://evil.example"},
        {"groups": ["research"], "exp": 1},
        {"groups": ["research"], "nonce": "old"},
        {"groups": ["research"], "preferred_username": "../x"},
    ],
    ids=str,
)
def test_other_tokens_sign_nobody_in(office: House, claims: dict[str, Any]) -> None:
    answer = signed_in(office, Provider(**{"preferred_username": "mallory", **claims}))
    assert answer.status_code in (403, 422)
    assert "mallory" not in {one["name"] for one in office.office.store.people()}


def test_a_token_of_another_key_and_a_state_of_nobody(office: House) -> None:
    provider = Provider(preferred_username="mallory", groups=["research"])
    provider.signing = Provider().key
    assert signed_in(office, provider).status_code == 403
    fine = Provider(preferred_username="mallory", groups=["research"])
    assert signed_in(office, fine, state="made up").status_code == 403
    assert "mallory" not in {one["name"] for one in office.office.store.people()}


def test_without_a_provider_there_are_tokens_only(tmp_path: Path) -> None:
    house = House(tmp_path)
    for path in ("/sign-in/office", "/sign-in/back"):
        assert house.request("GET", path).status_code == 404
    assert "office's account" not in house.request("GET", "/sign-in").text
    house.close()


def test_a_file_of_a_provider_is_checked(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "provider.toml"
    text = f'issuer = "{ISSUER}"\nclient_id = "sfumato"\nclient_secret = "s"\n'
    for roles in ('[roles]\nresearch = "king"\n', "", '[roles]\nx = "analyst"\n[more]\n'):
        file.write_text(text + roles)
        with pytest.raises(InvalidInputError):
            House(tmp_path, sign_on=str(file))
    file.write_text(f'{text}[roles]\nresearch = "analyst"\n')
    house = House(tmp_path, sign_on=str(file))
    assert "office's account" in house.request("GET", "/sign-in").text
    house.close()
