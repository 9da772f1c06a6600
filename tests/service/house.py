"""A service in one process, for tests: the app by a test client, the workers step by step."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from sfumato.service.access import make_token
from sfumato.service.settings import Settings
from sfumato.service.web import create_app
from sfumato.service.workers import Workers

API = "/api/v1"
TABLE = "patients.csv"


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
    """A service with an officer, two analysts and an auditor.

    Parameters
    ----------
    folder : Path
        For data and state.
    **settings
        Of the service.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        if not (folder / "data" / TABLE).exists():
            write_table(folder / "data" / TABLE)
        usual = {"memory": 16384, "requests_per_second": 1e6}
        self.settings = Settings(folder / "state", folder / "data", **{**usual, **settings})
        self.app = create_app(self.settings)
        self.office = self.app.state.office
        self.workers = Workers(self.settings)
        self.tokens: dict[str, str] = {}
        if not self.office.store.people():
            people = {"olga": "officer", "ada": "analyst", "bob": "analyst", "uwe": "auditor"}
            for name, role in people.items():
                self.office.store.add_person("test", name, role)
        for person in self.office.store.people():
            self.tokens[person["name"]] = make_token(
                self.office.store, "test", person["name"], hours=1
            )

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request to the app, without a server."""

        async def send() -> httpx.Response:
            way = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=way, base_url="http://test") as client:
                return await client.request(method, path, **more)

        return asyncio.run(send())

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
        while self.workers._children or self.office.store.jobs(state="queued"):
            self.workers.step()
            time.sleep(0.02)
            assert time.monotonic() - start < seconds, "the workers are not done"

    def open(self, name: str = "patients", *, epsilon: float = 5.0, **asked: Any) -> None:
        """Register a data set, confirm its columns, open it, and give both analysts quotas."""
        body = {"protected": "patients of the clinic", "why": "a test", "delta": 1e-5}
        body |= {"name": name, "path": TABLE, "target": "ill", "auto_approve": 3.0}
        if "budget" not in asked:
            body["epsilon"] = epsilon
        self.call("olga", "POST", "/datasets", body | asked, status=201)
        self.work()
        facts: dict[str, dict[str, Any]] = {
            "age": {"type": "int64", "lower": 0, "upper": 120},
            "bmi": {"type": "double", "lower": 10, "upper": 60, "missing": True},
            "town": {"type": "string", "categories": ["Ghent", "Ypres", "Mons"]},
            "ill": {"type": "string", "labels": ["no", "yes"]},
        }
        self.call("olga", "PUT", f"/datasets/{name}/format", {"missing": ["n/a"]})
        for column, told in facts.items():
            self.call("olga", "PUT", f"/datasets/{name}/columns/{column}", told)
        self.call("olga", "POST", f"/datasets/{name}/open", {"one_row_per_person": True})
        for analyst in ("ada", "bob"):
            path = f"/datasets/{name}/quotas/{analyst}"
            self.call("olga", "PUT", path, {"epsilon": epsilon * 0.8})

    def submit(self, who: str = "ada", name: str = "patients", **asked: Any) -> dict[str, Any]:
        """Submit a job."""
        body = {"estimator": "PrivateGaussianClassifier", "epsilon": 1.0, "purpose": "a test"}
        key = asked.pop("key", None)
        status = asked.pop("status", 202)
        headers = {} if key is None else {"Idempotency-Key": key}
        path = f"/datasets/{name}/jobs"
        found: dict[str, Any] = self.call(
            who, "POST", path, body | asked, status=status, headers=headers
        )
        return found

    def done(self, who: str = "ada", name: str = "patients", **asked: Any) -> dict[str, Any]:
        """Submit a job, let it be done, and return it."""
        job = self.submit(who, name, **asked)
        self.work()
        found: dict[str, Any] = self.call(who, "GET", f"/jobs/{job['id']}")
        return found

    def close(self) -> None:
        """Close what is open."""
        self.office.store.close()
        self.workers.store.close()
