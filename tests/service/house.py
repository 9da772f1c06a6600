"""A service in one process, for tests: the app by a test client, the workers step by step."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from sfumato.service.access import make_token
from sfumato.service.config import Settings
from sfumato.service.web import create_app
from sfumato.service.workers import Workers

API = "/api/v1"
TABLE = "patients.csv"
PEOPLE = {"olga": "officer", "ada": "analyst", "bob": "analyst", "uwe": "auditor"}
FACTS: dict[str, dict[str, Any]] = {
    "age": {"type": "int64", "lower": 0, "upper": 120},
    "bmi": {"type": "double", "lower": 10, "upper": 60, "missing": True},
    "town": {"type": "string", "categories": ["Ghent", "Ypres", "Mons"]},
}
LABELS = {"type": "string", "labels": ["no", "yes"]}


def write_table(path: Path, n_rows: int = 300, *, seed: int = 0) -> None:
    """Write a messy table: missing cells, text in numbers, a label that nobody declared."""
    rng = np.random.default_rng(seed)
    lines = ["age,bmi,town,ill"]
    for place in range(n_rows):
        age = rng.integers(18, 95)
        bmi = f"{rng.normal(27, 5):.1f}" if place % 17 else ["", "n/a", "heavy"][place % 3]
        town = rng.choice(["Ghent", "Ypres", "Mons"])
        ill = "yes" if age + rng.normal(0, 15) > 60 else "no"
        lines.append(f"{age},{bmi},{town},{ill}")
    path.write_text("\n".join(lines) + "\n")


class House:
    """A service with an officer, two analysts and an auditor."""

    def __init__(self, folder: Path, **service: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / TABLE).exists():
            write_table(folder / TABLE)
        usual = {"memory": 16384, "requests_per_second": 1e6, "max_jobs": 1000}
        self.service = {**usual, **service}
        self.people, self.datasets = dict(PEOPLE), dict[str, dict[str, Any]]()
        self.file = folder / "service.toml"
        self.declare()
        self.settings = Settings(self.file)
        self.app = create_app(self.settings)
        self.office = self.app.state.office
        self.workers = Workers(self.settings)
        self.tokens = {
            name: make_token(self.settings, self.office.store, name, "write", 1)
            for name in self.people
        }

    def declare(self) -> None:
        """Write service.toml anew."""

        def value(one: Any) -> str:
            if isinstance(one, dict):
                return "{" + ", ".join(f'"{k}" = {value(v)}' for k, v in one.items()) + "}"
            return str(one).lower() if isinstance(one, bool | float | int) else f"'{one}'"

        lines = ["[service]", *(f"{k} = {value(v)}" for k, v in self.service.items())]
        for name, role in self.people.items():
            lines += [f"[people.{name}]", f"role = '{role}'"]
        for name, facts in self.datasets.items():
            lines += [f"[datasets.{name}]", *(f"{k} = {value(v)}" for k, v in facts.items())]
        aside = self.file.with_suffix(".part")
        aside.write_text("\n".join(lines) + "\n")
        aside.replace(self.file)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request to the app, without a server."""

        async def send() -> httpx.Response:
            way = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=way, base_url="http://test") as client:
                return await client.request(method, path, **more)

        with ThreadPoolExecutor(1) as pool:  # also where a browser's loop runs
            return pool.submit(asyncio.run, send()).result()

    def call(
        self, who: str, method: str, path: str, body: Any = None, *, status: int = 200, **more: Any
    ) -> Any:
        """Call a route as somebody, and expect a status."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}", **more.pop("headers", {})}
        answer = self.request(method, API + path, json=body, headers=headers, **more)
        assert answer.status_code == status, (answer.status_code, answer.text)
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json and answer.content else answer.content

    def work(self, seconds: float = 900.0) -> None:
        """Let the workers do everything that is queued."""
        start = time.monotonic()
        self.workers.step()
        while self.workers._children or any(
            self.office.store.find("job", state=one) for one in ("queued", "asked")
        ):
            self.workers.step()
            time.sleep(0.02)
            assert time.monotonic() - start < seconds, "the workers are not done"

    def open(self, name: str = "patients", *, epsilon: float = 5.0, **asked: Any) -> None:
        """Declare a data set with quotas of both analysts, confirm its columns and open it."""
        quotas = {"ada": 0.8 * epsilon, "bob": 0.8 * epsilon}
        facts = {"path": TABLE, "target": "ill", "protected": "patients of the clinic"}
        facts |= {"why": "a test", "epsilon": epsilon, "delta": 1e-5, "auto_approve": 3.0}
        self.datasets[name] = {**facts, "quotas": quotas, **asked}
        self.declare()
        self.work()
        body = {"columns": FACTS, "target": LABELS, "file": {"missing": ["n/a"]}}
        body["one_row_per_person"] = True
        self.call("olga", "POST", f"/datasets/{name}/open", body)

    def submit(self, who: str = "ada", name: str = "patients", **asked: Any) -> dict[str, Any]:
        """Submit a job."""
        body = {"estimator": "PrivateGaussianClassifier", "epsilon": 1.0, "purpose": "a test"}
        key, status = asked.pop("key", None), asked.pop("status", 202)
        headers = {} if key is None else {"Idempotency-Key": key}
        found: dict[str, Any] = self.call(
            who, "POST", f"/datasets/{name}/jobs", body | asked, status=status, headers=headers
        )
        return found

    def done(self, who: str = "ada", name: str = "patients", **asked: Any) -> dict[str, Any]:
        """Submit a job, let it be done, and return it."""
        job = self.submit(who, name, **asked)
        self.work()
        found: dict[str, Any] = self.call(who, "GET", f"/jobs/{job['id']}")
        return found

    def spent(self, name: str = "patients") -> float:
        """Return what the total has spent."""
        found = self.call("olga", "GET", f"/datasets/{name}")["dataset"]["holdings"][0]["spent"]
        return float(found)

    def close(self) -> None:
        """Close what is open."""
        self.office.store.close()
        self.workers.store.close()


class Browser:
    """A person at the pages: keeps cookies, sends what the pages' script sends."""

    def __init__(self, house: House, token: str) -> None:
        self.house, self.cookies = house, dict[str, str]()
        answer = self.post("/sign-in", {"token": token})
        assert answer.status_code == 303, answer.text

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request with the cookies of the session."""
        held = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": held, **more.pop("headers", {})}
        answer = self.house.request(method, path, headers=headers, **more)
        for text in answer.headers.get_list("set-cookie"):
            name, _, value = text.split(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    def get(self, path: str, status: int = 200) -> str:
        """Return the text of a page."""
        answer = self.send("GET", path)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.text

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        """Send a form: JSON, but for the sign-in."""
        told = {"Sec-Fetch-Site": "same-origin", **headers}
        form: dict[str, Any] = {"data": body} if "sign" in path else {"json": body}
        return self.send("POST", path, headers=told, **form)
