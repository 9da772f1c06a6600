"""Who gets in: a table of all routes and all kinds of tokens, bodies, limits and headers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from sfumato.service.access import make_token, person_of
from sfumato.service.api import router
from sfumato.service.web import HEADERS, MAX_BYTES
from tests.service.house import API, House

ROLES = {"olga": "officer", "ada": "analyst", "uwe": "auditor"}


def guard_of(endpoint: Any) -> Any:
    """Return the dependency of a route that names its roles, or None."""
    for hint in get_type_hints(endpoint, include_extras=True).values():
        if get_origin(hint) is Annotated:
            for part in get_args(hint)[1:]:
                call = getattr(part, "dependency", None)
                if hasattr(call, "roles"):
                    return call
    return None


ROUTES = [
    (sorted(route.methods)[0], route.path, guard_of(route.endpoint)) for route in router.routes
]

NAMES = [f"{method} {path}" for method, path, _ in ROUTES]


def filled(path: str) -> str:
    return re.sub(r"\{\w+\}", "nothing", path)


def test_every_route_says_who_may_use_it() -> None:
    assert len(ROUTES) >= 30
    assert not [path for _, path, guard in ROUTES if guard is None]


@pytest.fixture(scope="module")
def bad_tokens(house: House) -> dict[str, str]:
    store = house.office.store
    expired = make_token(store, "test", "olga", hours=1)
    revoked = make_token(store, "test", "olga", hours=1)
    store.revoke_token("test", revoked.split("_")[1])
    later = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="seconds")
    store._database.write(
        lambda t: t.run(
            "UPDATE service_tokens SET expires = ? WHERE id = ?", (later, expired.split("_")[1])
        )
    )
    right = house.tokens["olga"]
    return {
        "none": "",
        "wrong": right[:-2] + ("aa" if right[-2:] != "aa" else "bb"),
        "another's secret": "_".join([*right.split("_")[:2], house.tokens["ada"].split("_", 2)[2]]),
        "not one": "Bearer of nothing",
        "too long": "sfm_" + "a" * 10_000,
        "expired": expired,
        "revoked": revoked,
        "session": make_token(store, "test", "olga", hours=1, scope="session"),
        "one time": make_token(store, "test", "olga", hours=1, scope="one time"),
    }


@pytest.mark.parametrize(("method", "path", "guard"), ROUTES, ids=NAMES)
def test_no_route_takes_a_bad_token(
    house: House, bad_tokens: dict[str, str], method: str, path: str, guard: Any
) -> None:
    seen = set()
    for name, token in bad_tokens.items():
        headers = {} if name == "none" else {"Authorization": f"Bearer {token}"}
        answer = house.request(method, filled(path), headers=headers, json={})
        assert answer.status_code == 401, (name, answer.text)
        seen.add(answer.text)
    assert len(seen) == 1, "the answer tells what is wrong with a token"


@pytest.mark.parametrize(("method", "path", "guard"), ROUTES, ids=NAMES)
def test_a_route_takes_its_roles_and_no_other(
    house: House, method: str, path: str, guard: Any
) -> None:
    for person, role in ROLES.items():
        headers = {"Authorization": f"Bearer {house.tokens[person]}"}
        own = filled(path.replace("/people/{name}", f"/people/{person}"))
        body = {"scope": "read"} if own.endswith("/tokens") and method == "POST" else {}
        status = house.request(method, own, headers=headers, json=body).status_code
        if role in guard.roles:
            assert status in (200, 201, 202, 204, 404, 409, 422), (person, status)
        else:
            assert status == 403, (person, status)


@pytest.mark.parametrize(("method", "path", "guard"), ROUTES, ids=NAMES)
def test_a_reading_token_changes_nothing(house: House, method: str, path: str, guard: Any) -> None:
    asks_only = path.endswith("/ask")
    assert guard.writes == (method != "GET" and not asks_only)
    reader = make_token(house.office.store, "test", "olga", hours=1, scope="read")
    headers = {"Authorization": f"Bearer {reader}"}
    status = house.request(method, filled(path), headers=headers, json={}).status_code
    assert (status == 403) == (guard.writes or "officer" not in guard.roles)


def test_bodies_have_a_limit_and_odd_ones_an_answer(house: House) -> None:
    headers = {"Authorization": f"Bearer {house.tokens['ada']}"}
    path = f"{API}/datasets/patients/jobs"
    large = b"[" + b"1," * MAX_BYTES + b"1]"
    assert house.request("POST", path, headers=headers, content=large).status_code == 413
    unbounded = {**headers, "Transfer-Encoding": "chunked"}
    chunked = house.request("POST", path, headers=unbounded, content=b"{}")
    assert chunked.status_code == 413, "a body says how large it is"
    for content in (b"", b"{", b"\xff\xfe", b"[" * 5000):
        status = house.request("POST", path, headers=headers, content=content).status_code
        assert status in (400, 422), (content[:10], status)


def test_every_field_is_documented(house: House) -> None:
    schemas = house.request("GET", "/api/openapi.json").json()["components"]["schemas"]
    for name, schema in schemas.items():
        if name not in ("HTTPValidationError", "ValidationError"):
            for field, about in schema.get("properties", {}).items():
                assert about.get("description"), f"{name}.{field}"


def test_every_answer_carries_the_headers(house: House) -> None:
    for path in ("/api/health", f"{API}/me", "/nothing", "/api/openapi.json"):
        answer = house.request("GET", path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, (path, name)


def test_a_fault_tells_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("row 7: Ada Lovelace")

    monkeypatch.setattr(house.office, "shown_to", broken)
    answer = house.request(
        "GET", f"{API}/datasets", headers={"Authorization": f"Bearer {house.tokens['ada']}"}
    )
    assert answer.status_code == 500
    assert "Lovelace" not in answer.text


def test_too_many_requests_of_one_do_not_stop_another(tmp_path: Path) -> None:
    house = House(tmp_path, requests_per_second=0.5)
    headers = {name: {"Authorization": f"Bearer {house.tokens[name]}"} for name in ("ada", "bob")}
    statuses = [
        house.request("GET", f"{API}/me", headers=headers["ada"]).status_code for _ in range(12)
    ]
    assert statuses[0] == 200
    assert statuses[-1] == 429
    assert house.request("GET", f"{API}/me", headers=headers["bob"]).status_code == 200
    house.close()


def test_tokens_are_stored_as_digests_and_found_nowhere(house: House) -> None:
    token = make_token(house.office.store, "test", "ada", hours=1)
    secret = token.split("_", 2)[2]
    house.office.store.close()
    for path in house.settings.state.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    assert person_of(house.office.store, token).name == "ada"


def test_people_see_what_is_theirs(house: House) -> None:
    mine = house.call("ada", "POST", "/people/ada/tokens", {"scope": "read"}, status=201)
    house.call("ada", "POST", "/people/bob/tokens", {"scope": "read"}, status=403)
    house.call("ada", "POST", "/people/ada/tokens", {"scope": "all"}, status=403)
    found = {one["id"]: one for one in house.call("ada", "GET", "/tokens")}
    own, made = (found[text.split("_")[1]] for text in (house.tokens["ada"], mine["token"]))
    assert made["expires"] <= own["expires"], "nobody prolongs her own permission"
    assert {one["person"] for one in house.call("ada", "GET", "/tokens")} == {"ada"}
    house.call("bob", "DELETE", f"/tokens/{mine['token'].split('_')[1]}", status=404)
    house.call("ada", "DELETE", f"/tokens/{mine['token'].split('_')[1]}", status=204)
    holders = [one["holder"] for one in house.call("ada", "GET", "/budgets")["patients"]]
    assert holders == [None, "ada"]
    assert "path" not in house.call("ada", "GET", "/datasets/patients")


def test_the_audit_log_is_a_chain(house: House) -> None:
    head = house.call("uwe", "GET", "/audit/verify")["audit_head"]
    assert house.call("uwe", "GET", "/audit?last=1")[0]["hash"] == head
    store = house.office.store
    line = store.audit(last=3)[-1]

    def meddle(text: str) -> None:
        store._database.write(
            lambda t: t.run(
                "UPDATE service_audit SET person = ? WHERE position = ?", (text, line["position"])
            )
        )

    meddle("nobody")
    answer = house.call("uwe", "GET", "/audit/verify", status=503)
    assert str(line["position"]) in answer["message"]
    meddle(line["person"])
    house.call("uwe", "GET", "/audit/verify")


def test_the_web_process_cannot_open_rows(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "rows.csv").write_text("a\n1\n")
    (tmp_path.parent / "other.txt").write_text("fine")
    code = (
        "from pathlib import Path; import sys\n"
        "from sfumato.service.settings import forbid_reading\n"
        "folder = Path(sys.argv[1]); forbid_reading(folder)\n"
        "(folder.parent / 'other.txt').read_text()\n"
        "try:\n    (folder / 'rows.csv').read_text()\n"
        "except PermissionError:\n    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "refused"
