"""Who gets in, as what, and until when: roles, tokens, sessions, other sites, limits."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.service.access import Limiter, make_token
from sfumato.service.config import Settings
from tests.service.house import API, TABLE, Browser, House, write_table

ANYBODY, OVERSEER = {"officer", "analyst", "auditor"}, {"officer", "auditor"}
EXPECTED = {
    "GET /me": ANYBODY,
    "GET /datasets": ANYBODY,
    "GET /datasets/{name}": ANYBODY,
    "POST /datasets/{name}/describe": {"officer"},
    "POST /datasets/{name}/open": {"officer"},
    "POST /datasets/{name}/plan": {"analyst"},
    "POST /datasets/{name}/jobs": {"analyst"},
    "GET /jobs": ANYBODY,
    "GET /jobs/{identity}": ANYBODY,
    "POST /jobs/{identity}/decide": {"officer"},
    "POST /jobs/{identity}/cancel": {"officer", "analyst"},
    "GET /releases": ANYBODY,
    "GET /releases/{identity}": ANYBODY,
    "GET /releases/{identity}/files/{file}": ANYBODY,
    "GET /datasets/{name}/report": OVERSEER,
    "GET /audit": OVERSEER,
    "GET /audit/statement": OVERSEER,
}
PAGES = [
    ("GET", "/"),
    ("GET", "/datasets/patients"),
    ("GET", "/datasets/patients/confirm"),
    ("GET", "/datasets/patients/ask"),
    ("GET", "/datasets/patients/dpia"),
    ("GET", "/compare"),
    ("GET", "/jobs"),
    ("GET", "/audit"),
    ("GET", "/metrics"),
    ("POST", "/datasets/patients/plan"),
]


def places(house: House) -> dict[str, set[str]]:
    """Return the routes of the API with the roles that its description gives."""
    paths = house.request("GET", "/api/openapi.json").json()["paths"]
    return {
        f"{method.upper()} {path.removeprefix(API)}": set(told["x-roles"])
        for path, found in paths.items()
        if path.startswith(API)
        for method, told in found.items()
    }


def test_every_route_takes_its_roles_and_no_other(house: House) -> None:
    assert places(house) == EXPECTED
    roles = {"officer": "olga", "analyst": "ada", "auditor": "uwe"}
    for place, allowed in EXPECTED.items():
        method, _, path = place.partition(" ")
        path = path.format(name="patients", identity="0" * 16, file="x")
        for role, name in roles.items():
            if role in allowed and "plan" in path:
                continue  # it waits for the workers
            headers = {"Authorization": f"Bearer {house.tokens[name]}"}
            answer = house.request(method, API + path, headers=headers, json={})
            assert (answer.status_code == 403) == (role not in allowed), (place, role, answer.text)
        for token in ("", "sfm_x_y", house.tokens["olga"][:-1], "\xff"):
            headers = {"Authorization": f"Bearer {token}".encode("latin-1")}  # type: ignore[dict-item]
            assert house.request(method, API + path, headers=headers, json={}).status_code == 401


def test_a_reading_token_changes_nothing_also_as_a_session(house: House) -> None:
    """Reproduced: an officer's reading token became a writing session."""
    for name in ("olga", "ada"):
        token = make_token(house.settings, house.office.store, name, "read", 1)
        browser = Browser(house, token)
        assert "may only read" in browser.get("/")
        for place in EXPECTED:
            method, _, path = place.partition(" ")
            if method == "POST":
                path = path.format(name="patients", identity="0" * 16)
                headers = {"Authorization": f"Bearer {token}"}
                assert house.request("POST", API + path, headers=headers).status_code == 403
                assert browser.post(API + path, {}).status_code == 403


def test_a_session_ends_with_its_token_and_with_its_person(fresh: House) -> None:
    """Reproduced: sessions outlived revoked and expired tokens, and people who were removed."""
    browsers = {name: Browser(fresh, fresh.tokens[name]) for name in ("olga", "ada", "uwe")}
    for one in browsers.values():
        one.get("/")
    fresh.office.store.change(
        "operator", "token", fresh.tokens["olga"].split("_")[1], "revoke", state="revoked"
    )
    browsers["olga"].get("/", status=303)
    fresh.people["ada"] = "auditor"
    fresh.declare()
    browsers["ada"].get("/audit")
    del fresh.people["ada"]
    fresh.declare()
    browsers["ada"].get("/", status=303)
    fresh.call("ada", "GET", "/me", status=401)
    expired = make_token(fresh.settings, fresh.office.store, "uwe", "write", -1)
    fresh.tokens["uwe"] = expired
    fresh.call("uwe", "GET", "/me", status=401)


def test_a_forged_or_stolen_cookie_is_no_session(house: House) -> None:
    browser = Browser(house, house.tokens["uwe"])
    (name, value), *_ = browser.cookies.items()
    body, _, rest = value.partition(".")
    browser.cookies[name] = f"{body[:-4]}AAAA.{rest}"
    browser.get("/", status=303)


@pytest.mark.parametrize(("method", "path"), PAGES)
def test_without_a_session_every_page_is_the_sign_in(house: House, method: str, path: str) -> None:
    answer = house.request(method, path, headers={"Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


def test_forms_of_another_site_are_refused(house: House) -> None:
    browser = Browser(house, house.tokens["ada"])
    form = {"epsilon": "1", "kind": "statistic", "purpose": "evil"}
    for told in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        assert browser.post(f"{API}/datasets/patients/jobs", form, **told).status_code == 403
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {}):
        answer = browser.send("POST", f"{API}/datasets/patients/jobs", json=form, headers=headers)
        assert answer.status_code == 403
    answer = browser.send("POST", "/sign-in", data={"token": house.tokens["ada"]})
    assert answer.status_code == 403, "nobody is signed in as another from another site"


def test_a_header_names_people_only_behind_a_declared_proxy(tmp_path: Path, house: House) -> None:
    headers = {"X-Forwarded-User": "olga"}
    assert house.request("GET", f"{API}/me", headers=headers).status_code == 401
    with pytest.raises(InvalidInputError, match="behind_proxy"):
        House(tmp_path / "a", sign_in_header="X-Forwarded-User")
    proxied = House(tmp_path / "b", behind_proxy=True, sign_in_header="X-Forwarded-User")
    assert proxied.request("GET", f"{API}/me", headers=headers).json()["role"] == "officer"
    twice = [("X-Forwarded-User", "olga"), ("X-Forwarded-User", "uwe")]
    assert proxied.request("GET", f"{API}/me", headers=twice).status_code == 401
    nobody = {"X-Forwarded-User": "eve"}
    assert proxied.request("GET", f"{API}/me", headers=nobody).status_code == 401
    answer = proxied.request("GET", "/sign-in")
    assert answer.headers["strict-transport-security"]
    token = {"token": proxied.tokens["ada"]}
    told = {"Sec-Fetch-Site": "same-origin"}
    cookie = proxied.request("POST", "/sign-in", data=token, headers=told).headers["set-cookie"]
    assert cookie.startswith("__Host-")
    assert {"secure", "httponly", "samesite=strict"} <= set(re.split("; ", cookie.lower()))
    proxied.close()


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 422), (b"[" * 10**5, 400), (b"\xff", 400), (b"1" * 2**21, 413), (b"null", 422)],
)
def test_odd_bodies_have_an_answer(house: House, content: bytes, status: int) -> None:
    headers = {"Authorization": f"Bearer {house.tokens['ada']}"}
    headers["Content-Type"] = "application/json"
    path = f"{API}/datasets/patients/jobs"
    answer = house.request("POST", path, content=content, headers=headers)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "message"}


ODD = ["/datasets/%00", "/jobs/%00", "/releases/a%00b/files/x", "/jobs?state=%00", "/me?%1f"]


@pytest.mark.parametrize("path", ODD)
def test_a_control_character_is_not_found(house: House, path: str) -> None:
    """Found: PostgreSQL refuses a NUL, which looked like a database that does not answer."""
    headers = {"Authorization": f"Bearer {house.tokens['ada']}"}
    assert house.request("GET", API + path, headers=headers).status_code == 404
    token = house.request(
        "POST", "/sign-in", data={"token": "sfm_\x00_x"}, headers={"Sec-Fetch-Site": "same-origin"}
    )
    assert token.status_code == 401


def test_a_fault_tells_nothing_and_is_logged_once_with_its_request(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(house.office.store, "find", broken)
    answer = house.request(
        "GET", f"{API}/jobs", headers={"Authorization": f"Bearer {house.tokens['uwe']}"}
    )
    assert answer.status_code == 500
    assert "secret" not in answer.text
    told = [one for one in caplog.records if one.levelname == "ERROR" and one.exc_info]
    assert len([one for one in told if one.name == "sfumato.service"]) == 1


def test_too_many_requests_of_one_do_not_stop_another(tmp_path: Path) -> None:
    for method, path in (("GET", f"{API}/me"), ("POST", "/sign-in"), ("GET", "/api/health")):
        house = House(tmp_path, requests_per_second=1)
        told = {"Sec-Fetch-Site": "same-origin"}
        statuses = [house.request(method, path, headers=told).status_code for _ in range(12)]
        assert statuses[-1] == 429 != statuses[0], "strangers are slowed down at every route"
    forwarded = {"X-Forwarded-For": "10.0.0.1"}
    assert house.request("GET", f"{API}/me", headers=forwarded).status_code == 429
    house.call("ada", "GET", "/me")
    limiter = Limiter(1.0)
    assert [limiter.admits("a") for _ in range(12)].count(True) == 10
    house.close()


def test_tokens_are_stored_as_digests_and_found_nowhere(house: House) -> None:
    secret = house.tokens["ada"].split("_", 2)[2].encode()
    for path in house.settings.state.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path


def test_the_audit_log_is_a_chain(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.open()
    assert house.call("uwe", "GET", "/audit")["checked"]["audit_head"]
    with closing(sqlite3.connect(house.settings.store_address)) as database, database:
        database.execute("UPDATE service_audit SET person = 'eve' WHERE position = 2")
    headers = {"Authorization": f"Bearer {house.tokens['uwe']}"}
    answer = house.request("GET", f"{API}/audit", headers=headers)
    assert answer.status_code == 503
    house.close()


def test_the_web_process_cannot_open_rows(tmp_path: Path) -> None:
    """Neither of a data set that was declared at the start, nor of one that was declared since."""
    for name in (TABLE, "later.csv", "other.csv"):
        write_table(tmp_path / name)
    (tmp_path / "link.csv").symlink_to(tmp_path / TABLE)
    program = (
        "import sys; from pathlib import Path\n"
        "from sfumato.service.config import Settings\n"
        "from sfumato.service.web import forbid_reading\n"
        "file = Path('service.toml')\n"
        f"file.write_text('[datasets.a]\\npath = \"{TABLE}\"')\n"
        "settings = Settings(file)\n"
        "forbid_reading(settings)\n"
        "open('other.csv'), open('later.csv')\n"
        "file.write_text('[datasets.b]\\npath = \"later.csv\"')\n"
        "assert 'b' in settings.config.datasets\n"
        "open('other.csv')\n"
        "for name in sys.argv[1:]:\n"
        "    try: open(name)\n"
        "    except PermissionError: print('refused')\n"
    )
    names = [str(tmp_path / one) for one in (TABLE, "link.csv", f"../{tmp_path.name}/{TABLE}")]
    command = [sys.executable, "-c", program, *names, "later.csv"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert told.stdout.split() == ["refused"] * 4, told.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[people", "not valid TOML"),
        ("[people.eve]\nrole = 'king'", "people.eve.role"),
        ("[people.eve]\nrole = 'owner'", "studio"),
        ("[people.eve]\nrole = 'officer'\npassword = 'x'", "password"),
        ("[datasets.a]\npath = 'a.csv'\nquotas = {eve = 1}", "not an analyst"),
        ("[datasets.a]\npath = 'a.csv'\nbudget = 'b'", "no data set 'b'"),
        ("[datasets.a]\npath = 'a.csv'\nepsilon = -1", "datasets.a.epsilon"),
    ],
)
def test_a_wrong_file_says_where(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "service.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=said):
        Settings(tmp_path / "service.toml")


def test_a_file_that_becomes_wrong_is_logged_and_not_in_force(
    fresh: House, caplog: pytest.LogCaptureFixture
) -> None:
    fresh.file.write_text("[people")
    fresh.call("ada", "GET", "/me")
    assert "not valid TOML" in caplog.text
    fresh.declare()
    fresh.call("ada", "GET", "/me")


def test_every_answer_carries_the_headers(house: House) -> None:
    for path in ("/sign-in", "/api/health", "/nowhere", "/assets/pages.css", f"{API}/me"):
        headers: Any = house.request("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in json.dumps(dict(headers))
        assert headers["x-request-id"]
