"""The description of the API is documentation; the client and the pages use nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Match

from sfumato import PrivateAdditiveClassifier, service
from sfumato.service import api
from sfumato.service.client import Client, RemoteDataset, RemoteJob
from tests.interfaces.service.house import API, House
from tests.interfaces.service.test_service_studio import Browser

HERE = Path(str(service.__file__)).parent
# What pages do that no route does, and why.
OF_PAGES_ALONE = {
    "settings": "pictures are drawn of files that the API gives",
    "store": "sessions, and the number of requests that wait",
}


def test_every_route_is_documented(house: House) -> None:
    described = house.request("GET", "/api/openapi.json").json()
    tags = {tag["name"] for tag in described["tags"]}
    assert described["components"]["securitySchemes"]
    for path, methods in described["paths"].items():
        for method, about in methods.items():
            told = f"{method} {path}"
            assert len(about.get("description", "")) > 10, told
            assert set(about["tags"]) <= tags, told
            if not path.startswith(API):
                continue
            assert about["security"], told
            assert about["x-roles"], told
            assert {"401", "403", "404", "422"} <= set(about["responses"]), told


def test_every_field_is_documented(house: House) -> None:
    schemas = house.request("GET", "/api/openapi.json").json()["components"]["schemas"]
    for name, schema in schemas.items():
        if name in ("HTTPValidationError", "ValidationError"):
            continue
        for field, about in schema.get("properties", {}).items():
            assert about.get("description"), f"{name}.{field}"


def verbs(path: Path) -> set[str]:
    """Return the verbs of the office and of curation that a module calls."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value
        is_office = isinstance(owner, ast.Name) and owner.id in ("office", "curation")
        is_call = isinstance(owner, ast.Call) and getattr(owner.func, "id", "") == "office_of"
        if is_office or is_call:
            found.add(node.attr)
    return found


def test_the_pages_do_nothing_that_the_api_does_not() -> None:
    offered = verbs(HERE / "api.py")
    assert len(offered) > 25
    for path in sorted((HERE / "studio").glob("*.py")):
        if path.name == "entrance.py":  # signing in is what tokens are for programs
            continue
        assert verbs(path) - offered <= set(OF_PAGES_ALONE), path.name


class Recorder(Client):
    """A client that notes which routes it would call."""

    def __init__(self) -> None:
        self.called: set[tuple[str, str]] = set()

    def call(self, method: str, path: str, *rest: Any, raw: bool = False, **more: Any) -> Any:
        del rest, more
        self.called.add((method, path))
        if raw:
            return b"a,b\n1,2\n"
        is_list = path in ("/datasets", "/releases")
        one = {"name": "NAME", "id": "ID", "state": "released", "values": [1.0], "files": {}}
        return [one] if is_list else one


def test_the_client_calls_documented_routes_only() -> None:
    client = Recorder()
    data, job = client.dataset("NAME"), RemoteJob(client, "ID")
    model = PrivateAdditiveClassifier(epsilon=1.0)
    calls: dict[str, Callable[[], Any]] = {
        "me": client.me,
        "datasets": client.datasets,
        "about": data.about,
        "plan": lambda: data.plan(1.0),
        "dummy_rows": data.dummy_rows,
        "submit": lambda: data.submit({}),
        "fit": lambda: data.fit(model, purpose="a test", wait=False),
        "releases": data.releases,
        "status": job.status,
        "cancel": job.cancel,
        "wait": job.wait,
        "file": lambda: job.file("FILE"),
        "ask": lambda: job.ask([[1.0]]),
    }
    of_others = {"call", "dataset", "model", "table", "guarantee"}  # made of those above
    public = {
        name
        for kind in (Client, RemoteDataset, RemoteJob)
        for name, value in vars(kind).items()
        if callable(value) and not name.startswith("_")
    }
    assert public == set(calls) | of_others
    for call in calls.values():
        call()
    routes = [route for route in api.router.routes if isinstance(route, APIRoute)]
    for method, path in client.called:
        scope = {"type": "http", "method": method, "path": API + path}
        fitting = [one for one in routes if one.matches(scope)[0] is Match.FULL]
        assert fitting, (method, path)
        assert fitting[0].include_in_schema


def test_the_page_of_the_api_shows_every_route_and_field(house: House) -> None:
    text = Browser(house, "ada").get("/api")
    described = house.request("GET", "/api/openapi.json").json()
    for path in described["paths"]:
        assert path in text
    for name in ("NewJob", "NewDataset", "ColumnFacts"):
        for field in described["components"]["schemas"][name]["properties"]:
            assert f"<code>{field}</code>" in text, field
    assert "`" not in text


@pytest.mark.parametrize("who", ["olga", "ada", "uwe"])
def test_the_page_of_the_api_is_for_everybody(house: House, who: str) -> None:
    Browser(house, who).get("/api", 200)
