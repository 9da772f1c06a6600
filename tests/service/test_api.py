"""The description of the API is documentation; the client and the pages use nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

from sfumato import service
from tests.service.house import House

HERE = Path(str(service.__file__)).parent
# What pages do that no route does, and why.
OF_PAGES_ALONE = {
    "settings": "pictures are drawn of files that the API gives",
    "store": "sessions, and the number of requests that wait",
}


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
