"""Bodies, queries and paths made from the API's own description, and broken: never a 5xx.

Every operation gets requests that its schema allows, and the same with a part replaced by any
JSON at all. A new route is in the description, and so it is in here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.service.house import House

pytestmark = pytest.mark.servers
EXAMPLES = 40
Schema = dict[str, Any]
WORDS = ["patients", "age", "ada", "a purpose", "patients.csv", "../x", "\x00"]
WORDS += ["PrivateGaussianClassifier"]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("fuzzed"))
    house.open(epsilon=90.0)
    house.done(kind="density", estimator=None, columns=["age"])
    yield house
    house.close()


def values_of(schema: Schema, parts: Schema) -> st.SearchStrategy[Any]:
    """Return what a schema allows; what is not understood may be anything."""
    if "$ref" in schema:
        return values_of(parts[schema["$ref"].rpartition("/")[2]], parts)
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return st.one_of([values_of(one, parts) for one in schema[word]])
    if schema.get("type") == "object":
        return _objects(schema, parts)
    if schema.get("type") == "array":
        most = min(schema.get("maxItems", 4), 4)
        items = values_of(schema.get("items", {}), parts)
        return st.lists(items, min_size=schema.get("minItems", 0), max_size=most)
    return _plain(schema)


def _objects(schema: Schema, parts: Schema) -> st.SearchStrategy[Any]:
    needed = set(schema.get("required", ()))
    known = {key: values_of(one, parts) for key, one in schema.get("properties", {}).items()}
    if not known:
        return st.dictionaries(st.text(max_size=8), ANY_JSON, max_size=3)
    must = {key: one for key, one in known.items() if key in needed}
    more = {key: one for key, one in known.items() if key not in needed}
    # Any of the others, or one alone: most pairs of them are refused by a rule on both.
    alone = [st.fixed_dictionaries({**must, key: one}) for key, one in more.items()]
    return st.one_of(st.fixed_dictionaries(must, optional=more), *alone)


def _plain(schema: Schema) -> st.SearchStrategy[Any]:
    low, high = schema.get("minimum"), schema.get("maximum")
    low = schema.get("exclusiveMinimum", low)
    high = schema.get("exclusiveMaximum", high)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "boolean": st.booleans(),
        "null": st.none(),
        "integer": st.integers(
            None if low is None else math.ceil(low), None if high is None else math.floor(high)
        ),
        "number": st.floats(low, high, allow_nan=False) | st.just(0.5),
        "string": (
            st.text(
                min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 12), 12)
            )
            | st.sampled_from(WORDS)
        ).filter(lambda text: re.search(schema.get("pattern", ""), text) is not None),
    }
    return kinds.get(schema.get("type", ""), ANY_JSON)


@st.composite
def broken(draw: Any, record: Any) -> Any:
    """Return the same with one part replaced, left out or added."""
    if isinstance(record, dict) and record and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(record)))
        inner = draw(broken(record[key]))
        return {**record, key: inner}
    return draw(ANY_JSON)


def operations(house: House) -> list[tuple[str, str, Schema]]:
    document = house.request("GET", "/api/openapi.json").json()
    return [
        (method.upper(), path, {**operation, "parts": document["components"]["schemas"]})
        for path, found in document["paths"].items()
        for method, operation in found.items()
        if not path.endswith(("/plan", "/health"))  # they wait for workers
    ]


@st.composite
def requests(draw: Any, house: House, method: str, path: str, operation: Schema) -> Schema:
    """Return a request of an operation: most of it as described, and sometimes a part broken."""
    parts = operation["parts"]
    jobs = [one["id"] for one in house.office.store.find("job")]
    known = {"name": ["patients"], "identity": jobs, "file": ["guarantee.json"]}
    query: Schema = {}
    for one in operation.get("parameters", ()):
        if one["in"] == "path":
            defaults = st.sampled_from(known.get(one["name"], ["x"]))
            spares = path.endswith("/cancel")  # else there is nothing left to ask
            is_odd = spares or draw(st.integers(0, 4)) == 0
            value = draw(st.text(max_size=10) if is_odd else defaults)
            path = path.replace("{" + one["name"] + "}", quote(value or "x", safe=""))
        elif one["in"] == "query" and draw(st.booleans()):
            value = draw(values_of(one["schema"], parts) | st.text(max_size=10))
            query[one["name"]] = value if isinstance(value, str) else json.dumps(value)
    request: Schema = {"url": path, "method": method, "params": query}
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = draw(values_of(schema, parts))
        if draw(st.integers(0, 2)) == 0:
            body = draw(broken(body))
        request["content"] = json.dumps(body).encode("utf-8", "surrogatepass")
    return request


def fuzz(
    house: House, method: str, path: str, operation: Schema, examples: int = EXAMPLES
) -> list[int]:
    """Send requests of one operation, each by all three roles; return their statuses."""
    statuses: list[int] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(requests(house, method, path, operation))
    def send(request: Schema) -> None:
        for who in ("uwe", "ada", "olga"):
            asked = {**request, "headers": {"Content-Type": "application/json"}}
            asked["headers"]["Authorization"] = f"Bearer {house.tokens[who]}"
            told = house.request(asked.pop("method"), asked.pop("url"), **asked)
            statuses.append(told.status_code)
            assert told.status_code < 500, (who, request, told.text)
            if told.status_code >= 400:
                assert set(told.json()) == {"error", "message"}, (who, request, told.text)

    send()
    return statuses


def test_no_request_is_a_fault_of_the_service(fuzzed: House) -> None:
    seen: dict[str, list[int]] = {}
    for method, path, operation in operations(fuzzed):
        seen[f"{method} {path}"] = fuzz(fuzzed, method, path, operation)
    assert len(seen) > 15
    answered = [name for name, found in seen.items() if any(status < 300 for status in found)]
    assert len(answered) > len(seen) / 2, "most operations are reached, not only refused"


def test_a_planted_fault_is_found(fuzzed: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: an office that trips over a delta that was stated."""
    real = fuzzed.office.queue

    def tripping(*words: Any, delta: float = 0.0, **more: Any) -> Any:
        return real(*words, delta={1e-5: delta}[delta], **more)

    monkeypatch.setattr(fuzzed.office, "queue", tripping)
    (found,) = [o for o in operations(fuzzed) if o[1].endswith("/{name}/jobs")]
    with pytest.raises(AssertionError, match="fault"):
        fuzz(fuzzed, *found, examples=10 * EXAMPLES)  # ends at the first that is found
