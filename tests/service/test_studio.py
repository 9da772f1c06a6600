"""The pages: every one for every role, forms with and without their token, the whole way."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from sfumato.service.access import csrf_token, make_token
from sfumato.service.api import COOKIE
from sfumato.service.studio import pages
from tests.service.house import TABLE, House

PAGES = [(sorted(route.methods)[0], route.path) for route in pages.router.routes]
OPEN = {"/sign-in", "/assets/{name}"}
ROLES = {"olga": "officer", "ada": "analyst", "uwe": "auditor"}


class Browser:
    """Somebody with a session, without JavaScript."""

    def __init__(self, house: House, name: str) -> None:
        self.house = house
        token = make_token(house.office.store, "test", name, hours=1, scope="session")
        self.cookies = {COOKIE: token}
        self.csrf = csrf_token(house.app.state.secret, token.split("_")[1])

    def get(self, path: str, status: int = 200) -> str:
        answer = self._send("GET", path)
        assert answer.status_code == status, (path, answer.status_code, answer.text[:2000])
        return answer.text

    def post(self, path: str, status: int = 303, /, **fields: str) -> httpx.Response:
        answer = self._send("POST", path, data={"csrf": self.csrf, **fields})
        assert answer.status_code == status, (path, answer.status_code, answer.text[:2000])
        return answer

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        header = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        return self.house.request(method, path, headers={"Cookie": header}, **more)


class Checker(HTMLParser):
    """Collects what no page may have, and the labels that every field needs."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.outside: list[str] = []
        self.fields: list[str | None] = []
        self.labels: set[str | None] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        if tag == "script" and "src" not in given:
            self.inline.append("script")
        for name in ("src", "href", "action"):
            if (given.get(name) or "").startswith(("http:", "https:", "//")):
                self.outside.append(str(given[name]))
        if tag in ("input", "select", "textarea") and given.get("type") != "hidden":
            self.fields.append(given.get("id"))
        if tag == "label":
            self.labels.add(given.get("for"))


def checked(text: str) -> str:
    checker = Checker()
    checker.feed(text)
    assert not checker.inline, checker.inline
    assert not checker.outside, checker.outside
    assert not [field for field in checker.fields if field not in checker.labels]
    return text


@pytest.mark.parametrize(("method", "path"), PAGES, ids=[f"{m} {p}" for m, p in PAGES])
def test_without_a_session_every_page_is_the_sign_in(house: House, method: str, path: str) -> None:
    if path in OPEN:
        return
    for cookie in ("", "nonsense", house.tokens["olga"]):
        headers = {"Cookie": f"{COOKIE}={cookie}"}
        answer = house.request(method, re.sub(r"\{\w+\}", "x", path), headers=headers)
        assert (answer.status_code, answer.headers.get("location")) == (303, "/sign-in")


@pytest.mark.parametrize(("method", "path"), PAGES, ids=[f"{m} {p}" for m, p in PAGES])
def test_no_form_works_without_its_token(house: House, method: str, path: str) -> None:
    if method == "GET" or path in OPEN:
        return
    for person in ROLES:
        browser = Browser(house, person)
        place = re.sub(r"\{\w+\}", "patients", path)
        browser.csrf = Browser(house, person).csrf  # of another session of the same person
        browser.post(place, 403)


def test_the_way_of_an_officer_and_an_analyst(tmp_path: Any) -> None:
    house = House(tmp_path)
    olga, ada = Browser(house, "olga"), Browser(house, "ada")
    assert "Register a data set" in checked(olga.get("/"))
    assert "Register a data set" not in checked(ada.get("/"))
    checked(olga.get("/datasets/new"))
    ada.get("/datasets/new", 403)
    form = {"name": "clinic", "path": TABLE, "target": "ill", "protected": "patients"}
    form |= {"unit": "record", "relation": "replace_one", "epsilon": "4", "delta": "1e-5"}
    form |= {"auto_approve": "1", "kind": "", "budget": "", "why": "a test"}
    checked(olga.post("/datasets/new", 422, **form | {"epsilon": "much"}).text)
    checked(olga.post("/datasets/new", 422, **form | {"path": "../secret.key"}).text)
    olga.post("/datasets/new", **form)
    checked(olga.get("/datasets/clinic"))
    house.work()
    text = checked(olga.get("/datasets/clinic/confirm"))
    assert "Still to confirm: age, bmi, town, ill, how the file" in text
    assert "bmi" in checked(olga.post("/datasets/clinic/open", 422).text)
    wrong = {"column": "age", "lower": "9", "upper": "old"}
    assert "is no number" in checked(olga.post("/datasets/clinic/columns", 422, **wrong).text)
    declared = {
        "age": {"type": "int64", "lower": "0", "upper": "120"},
        "bmi": {"left_out": "1"},
        "town": {"type": "string", "values": "Ghent\nYpres\nMons"},
        "ill": {"values": "no\nyes"},
    }
    for column, fields in declared.items():
        olga.post("/datasets/clinic/columns", column=column, **fields)
    olga.post("/datasets/clinic/format", delimiter=",", words="n/a")
    checked(olga.get("/datasets/clinic/confirm"))
    olga.post("/datasets/clinic/open", one_row_per_person="1")
    ada.get("/datasets/clinic", 404)
    olga.post("/datasets/clinic/quota", 422, analyst="ada", epsilon="0", until="")
    olga.post("/datasets/clinic/quota", analyst="ada", epsilon="3", until="")
    olga.post("/datasets/clinic/automatic", epsilon="0")
    olga.post("/datasets/clinic/automatic", epsilon="1")
    assert "0 of 3 spent" in checked(ada.get("/"))
    checked(ada.get("/datasets/clinic"))
    checked(ada.get("/datasets/clinic/ask"))
    assert "at once" in ada.get("/datasets/clinic/cost?epsilon=0.5")
    assert "officer will read" in ada.get("/datasets/clinic/cost?epsilon=2")
    assert "does not fit" in ada.get("/datasets/clinic/cost?epsilon=3.5")
    assert "valid number" in ada.get("/datasets/clinic/cost?epsilon=x")
    asked = {"kind": "fit", "estimator": "PrivateAdditiveClassifier", "purpose": "tri<b>age"}
    asked |= {"parameters": "{}", "key": "one", "columns": "", "rows": ""}
    checked(ada.post("/datasets/clinic/ask", 422, **asked | {"epsilon": "9"}).text)
    place = ada.post("/datasets/clinic/ask", epsilon="1.5", **asked).headers["location"]
    assert ada.post("/datasets/clinic/ask", epsilon="1.5", **asked).headers["location"] == place
    assert "for an officer" in checked(ada.get(place))
    text = checked(olga.get("/inbox"))
    assert "tri&lt;b&gt;age" in text
    olga.post(f"{place}/decide", decision="approve", reason="")
    house.work()
    assert "See the release" in checked(ada.get(place))
    release = place.replace("jobs", "releases")
    text = checked(ada.get(release))
    assert "guesses right" in text
    assert text.count("<svg role=") >= 2
    assert ada.get(f"{release}/files/guarantee.json").startswith("{")
    ada.get(f"{release}/files/..%2Frelease.json", 404)
    assert checked(ada.get("/datasets/clinic")).count("PrivateAdditiveClassifier") == 1
    for page in ("/jobs", "/people", "/audit"):
        checked(olga.get(page))
    assert "Every line is intact" in checked(Browser(house, "uwe").get("/audit"))
    ada.get("/audit", 403)
    assert olga.get("/audit/statement").startswith("{")
    assert ada.get("/datasets/clinic/dummy").startswith('"age"')
    olga.post("/datasets/clinic/retire", 422, sure="no")
    olga.post("/datasets/clinic/retire", sure="clinic")
    house.close()


def test_people_are_added_and_tokens_shown_once(house: House) -> None:
    olga = Browser(house, "olga")
    olga.post("/people", name="eve", role="analyst")
    olga.post("/people", 422, name="eve", role="analyst")
    olga.post("/people", 422, name="a b", role="analyst")
    text = olga.post("/people/eve/token", 200).text
    token = re.search(r"sfm_\w+_[\w-]+", text)
    assert token is not None
    assert token.group() not in olga.get("/people")
    headers = {"Authorization": f"Bearer {token.group()}"}
    assert house.request("GET", "/api/v1/me", headers=headers).json()["name"] == "eve"
    olga.post(f"/tokens/{token.group().split('_')[1]}/revoke")
    assert house.request("GET", "/api/v1/me", headers=headers).status_code == 401


def test_a_first_link_is_good_once(tmp_path: Any) -> None:
    from sfumato.service.office import ServiceApi
    from sfumato.service.settings import Settings

    (tmp_path / "data").mkdir()
    office = ServiceApi(Settings(tmp_path / "state", tmp_path / "data"))
    code = office.first_officer()
    house = House(tmp_path)
    first = house.request("POST", "/sign-in", data={"token": code})
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert house.request("POST", "/sign-in", data={"token": code}).status_code == 401
    assert house.request("POST", "/sign-in", data={}).status_code == 401
    other = {"Origin": "https://evil.example"}
    right = {"token": house.tokens["officer"]}
    assert house.request("POST", "/sign-in", data=right, headers=other).status_code == 403
    session = cookie.split(";")[0]
    assert house.request("GET", "/", headers={"Cookie": session}).status_code == 200
    assert office.first_officer() is None
    for token in house.office.store.tokens("officer"):
        house.office.store.revoke_token("officer", token["id"])  # as signing out does
    again = house.request("POST", "/sign-in", data={"token": office.first_officer()})
    assert again.status_code == 303, "the only officer is not locked out"
    office.store.close()
    house.close()


def test_cookies_are_for_https_where_pages_are(tmp_path: Any) -> None:
    house = House(tmp_path, secure_cookies=True)
    answer = house.request("POST", "/sign-in", data={"token": house.tokens["ada"]})
    assert "Secure" in answer.headers["set-cookie"]
    house.close()


def test_a_private_search_through_the_page(tmp_path: Any) -> None:
    house = House(tmp_path)
    house.open(epsilon=3.0, kind="renyi", relation="add_or_remove_one")
    ada = Browser(house, "ada")
    assert "A private search" in checked(ada.get("/datasets/patients/ask"))

    def share(epsilon: float) -> float:
        text = ada.get(f"/datasets/patients/cost?epsilon={epsilon}&kind=search")
        assert "Each run has" in text
        return float(re.findall(r"this costs ([\d.]+) %", text)[0])

    assert share(0.25) < share(0.5) < share(1.0)
    asked = {"kind": "search", "estimator": "PrivateLinearClassifier", "purpose": "a test"}
    asked |= {"parameters": "{}", "key": "one", "columns": "", "rows": "", "epsilon": "0.5"}
    for wrong, word in (("n_steps", "one per line"), ("depth: 3", "depth"), ("", "grid")):
        text = checked(ada.post("/datasets/patients/ask", 422, grid=wrong, **asked).text)
        assert word in text
        assert "selected>PrivateLinearClassifier" in text
    place = ada.post("/datasets/patients/ask", grid="n_steps: 2, 4\n", **asked).headers["location"]
    house.work()
    assert "n_steps: 2, 4" in checked(ada.get(place))
    assert "of 2, 4" in checked(ada.get(place.replace("jobs", "releases")))
    held = house.call("ada", "GET", "/datasets/patients")["holdings"][0]
    assert 0.8 * share(0.5) <= 100 * held["share"] <= share(0.5) + 0.1
    house.close()
