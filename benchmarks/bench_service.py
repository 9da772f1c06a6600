"""The service under a crowd and under kills: nothing is overspent, lost in silence or drawn twice.

    python -m benchmarks.bench_service --submits 200 --kills 500 [--database postgresql://...]

Starts the real command, lets twenty analysts submit in parallel over HTTP while twenty clients ask
for the status of a job, each once a second, as open pages do. Then jobs, the web process and
everything are killed at random moments while more is submitted, and the ledger is compared with the
releases. Writes results/service.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from sfumato import Ledger
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.service.access import make_token
from sfumato.service.config import Settings
from sfumato.service.store import Store

ANALYSTS = 20
RESULTS = Path(__file__).parent / "results" / "service.json"
ENDED = ("released", "refused", "failed", "lost", "cancelled")


def declare(folder: Path, database: str | None, port: int) -> Path:
    """Write a table and a service.toml with many analysts."""
    rng = np.random.default_rng(0)
    rows = [f"{rng.integers(18, 95)},{rng.normal(27, 5):.1f}" for _ in range(500)]
    (folder / "rows.csv").write_text("age,bmi\n" + "\n".join(rows) + "\n")
    lines = ["[service]", f"port = {port}", "requests_per_second = 1000", "memory = 16384"]
    lines += [] if database is None else [f"database = '{database}'"]
    people = [f"analyst{place}" for place in range(ANALYSTS)]
    lines += ["[people.olga]", "role = 'officer'"]
    for name in people:
        lines += [f"[people.{name}]", "role = 'analyst'"]
    quotas = ", ".join(f"{name} = 1" for name in people)
    lines += ["[datasets.rows]", "path = 'rows.csv'", "epsilon = 3", "delta = 1e-5"]
    lines += ["auto_approve = 1", f"quotas = {{ {quotas} }}"]
    (folder / "service.toml").write_text("\n".join(lines) + "\n")
    return folder / "service.toml"


class Running:
    """The command, and ways to talk to it and to kill its parts."""

    def __init__(self, file: Path, port: int) -> None:
        self.settings, self.url = Settings(file), f"http://127.0.0.1:{port}"
        store = Store(self.settings.store_address)
        store.prepare()
        names = ["olga", *(f"analyst{place}" for place in range(ANALYSTS))]
        self.tokens = {n: make_token(self.settings, store, n, "write", 1) for n in names}
        store.close()
        self.client = httpx.Client(base_url=self.url, timeout=30)
        self.log = (file.parent / "log.txt").open("a")
        self.file = file
        self.start()

    def start(self) -> None:
        """Start the command and wait until it answers."""
        command = [sys.executable, "-m", "sfumato", "serve", "--config", str(self.file)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        while True:
            try:
                if httpx.get(f"{self.url}/api/health", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            if self.process.poll() is not None:
                raise RuntimeError("the service has ended")
            time.sleep(0.1)

    def call(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call a route, again and again until the service answers."""
        headers["Authorization"] = f"Bearer {self.tokens[who]}"
        for _ in range(600):
            try:
                answer = self.client.request(method, f"/api/v1{path}", json=body, headers=headers)
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            if answer.status_code in (429, 503):
                time.sleep(0.1)
                continue
            return answer.json()
        raise RuntimeError("the service does not answer")

    def kill(self, what: str) -> bool:
        """Kill a part; return whether one was there. What has ended is started again."""
        web = int((self.settings.state / "web.pid").read_text())
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        jobs = [int(one) for one in children.split() if int(one) != web]
        victims = {"all": [self.process.pid], "web": [web], "job": jobs}[what]
        if not victims:
            return False
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(random.choice(victims), signal.SIGKILL)
        if what != "job":  # without the web process, the command ends
            self.process.wait()
            self.start()
        return True

    def memory(self) -> float:
        """Return the megabytes of the whole command, shared pages counted once."""
        parts = [self.process.pid]
        parts += [int(path.read_text()) for path in self.settings.state.glob("*.pid")]
        total = 0
        for one in parts:
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) if line.startswith("Pss:") else 0
        return total / 1024


def percentile(seconds: list[float], share: float) -> float:
    """Return a percentile in milliseconds."""
    return round(1000 * float(np.percentile(seconds, share)), 1)


def run(submits: int, kills: int, database: str | None) -> dict[str, Any]:
    """Let a crowd submit while parts are killed, and compare ledger and releases."""
    port = random.randint(20_000, 60_000)
    with tempfile.TemporaryDirectory() as folder:
        service = Running(declare(Path(folder), database, port), port)
        facts = {"type": "double", "lower": 0, "upper": 120}
        while service.call("olga", "GET", "/datasets/rows")["dataset"]["state"] != "proposed":
            time.sleep(0.2)
        body = {"columns": {"age": facts, "bmi": facts}, "file": {}, "one_row_per_person": True}
        service.call("olga", "POST", "/datasets/rows/open", body)
        time.sleep(3)
        idle = service.memory()
        asked = {"kind": "statistic", "epsilon": 0.01, "purpose": "to ask for its status"}
        job = service.call("analyst0", "POST", "/datasets/rows/jobs", asked)["id"]
        time.sleep(5)

        def ask(_: int) -> list[float]:
            seconds = []
            for _ in range(15):
                time.sleep(0.5 + secrets.randbelow(1000) / 1000)
                start = time.perf_counter()
                service.call("analyst0", "GET", f"/jobs/{job}")
                seconds.append(time.perf_counter() - start)
            return seconds

        def submit(number: int, epsilon: float, key: int) -> tuple[str, float]:
            start, name = time.perf_counter(), f"analyst{number % ANALYSTS}"
            asked = {"kind": "statistic", "epsilon": epsilon, "purpose": f"number {number}"}
            named = {"Idempotency-Key": str(key)}
            found = service.call(name, "POST", "/datasets/rows/jobs", asked, **named)
            return found.get("id", ""), time.perf_counter() - start

        def status(crowd: float | None) -> tuple[list[float], list[tuple[str, float]]]:
            with ThreadPoolExecutor(2 * ANALYSTS) as pool:
                asked = [pool.submit(ask, place) for place in range(ANALYSTS)]
                time.sleep(2)
                numbers = range(submits if crowd else 0)
                twice = max(submits // 2, 1)  # the same is sent again
                told = [pool.submit(submit, n, crowd or 0, n % twice) for n in numbers]
                return [s for one in asked for s in one.result()], [one.result() for one in told]

        quiet, _ = status(None)
        busy, found = status(0.02)
        begun = time.perf_counter()
        with ThreadPoolExecutor(ANALYSTS) as pool:
            more, killed = [], dict.fromkeys(("all", "web", "job"), 0)
            while sum(killed.values()) < kills:
                if secrets.randbelow(2):
                    more.append(pool.submit(submit, len(more), 0.01, submits + len(more)))
                time.sleep(0.1 + secrets.randbelow(500) / 1000)
                what = random.choices(("all", "web", "job"), (1, 1, 18))[0]
                killed[what] += service.kill(what)
            found += [one.result() for one in more]
        accepted = {identity for identity, _ in found if identity}
        jobs: dict[str, str] = {}
        while not accepted <= {one for one, state in jobs.items() if state in ENDED}:
            listed = service.call("olga", "GET", "/jobs")["jobs"]
            jobs |= {one["id"]: one["state"] for one in listed}
            time.sleep(1)
        took = time.perf_counter() - begun
        audited = service.call("olga", "GET", "/audit")
        service.process.terminate()
        service.process.wait()
        budget = SharedBudget(Ledger(service.settings.ledger_address), "rows")
        budget.verify()
        total, *quotas = budget.holdings()
        paid = [line.note.reference for line in budget.dataset.lines()]
        states = [jobs[one] for one in accepted]
        charged = {one for one in (*accepted, job) if jobs[one] in ("released", "lost")}
        return {
            "database": "SQLite" if database is None else "PostgreSQL",
            "submits": submits,
            "kills": killed,
            "jobs": len(accepted),
            "states": {state: states.count(state) for state in sorted(set(states))},
            "charged_once_each": sorted(paid) == sorted(charged),
            "overspent": not all(one.filter.admits(one.cost) for one in (total, *quotas)),
            "audit_intact": "checked" in audited,
            "seconds": round(took, 1),
            "submit_p95_ms": percentile([s for _, s in found[:submits]], 95),
            "status_p50_ms": percentile(quiet, 50),
            "status_p95_ms": percentile(quiet, 95),
            "status_p95_ms_while_submitting": percentile(busy, 95),
            "machine_load": round(os.getloadavg()[0], 1),
            "idle_mb": round(idle, 1),
        }


def main() -> None:
    """Run and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submits", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--database")
    parser.add_argument("--run", type=int, default=1)
    told = parser.parse_args()
    found = run(told.submits, told.kills, told.database)
    known = json.loads(RESULTS.read_text())["numbers"] if RESULTS.exists() else []
    found["run"] = told.run
    same = (found["database"], told.run)
    known = [one for one in known if (one["database"], one["run"]) != same]
    RESULTS.write_text(
        json.dumps({"benchmark": "service", "numbers": [*known, found]}, indent=1) + "\n"
    )
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
