"""The service under a crowd, and under kill -9.

python -m benchmarks.bench_service [crowd] [kills] [--share 0.1] [--databases sqlite]

Each part starts ``sfumato serve`` on loopback with its own folder, and ends it, on SQLite and on a
PostgreSQL server of its own. Writes results/service_NAME.json.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.recording import write
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.service.access import make_token
from sfumato.service.api import COOKIE
from sfumato.service.office import ServiceApi
from sfumato.service.settings import Settings
from sfumato.service.store import ServiceError

ANALYSTS, WATCHERS = 20, 8
BODY = {"kind": "moments", "estimator": "PrivateMoments", "purpose": "a benchmark"}
FIT = {"kind": "fit", "estimator": "PrivateLinearClassifier", "purpose": "a benchmark"}
FUNCTION = {"kind": "density", "columns": ["age"], "purpose": "a benchmark"}
CURVE = {"kind": "density", "columns": ["age"], "purpose": "a benchmark"}
JOBS = "/datasets/rows/jobs"


def write_rows(path: Path, n_rows: int = 300) -> None:
    rng = np.random.default_rng(0)
    lines = ["age,bmi,ill"]
    for age, bmi in zip(rng.integers(18, 95, n_rows), rng.normal(27, 5, n_rows), strict=True):
        lines.append(f"{age},{bmi:.1f},{'yes' if age > 60 else 'no'}")
    path.write_text("\n".join(lines) + "\n")


class Service:
    """A service in processes of its own, with an open data set and twenty analysts."""

    def __init__(self, folder: Path, database: str | None, epsilon: float) -> None:
        (folder / "data").mkdir()
        write_rows(folder / "data" / "rows.csv")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.database = folder, database
        self.http = httpx.Client(
            timeout=300, trust_env=False
        )  # one for all: a new one reads certificates for long
        self.settings = Settings(folder / "state", folder / "data", database=database).prepared()
        self.office = ServiceApi(self.settings)
        self.office.store.add_person("benchmark", "olga", "officer")
        for place in range(ANALYSTS):
            self.office.store.add_person("benchmark", f"a{place}", "analyst")
        people = ["olga", *(f"a{place}" for place in range(ANALYSTS))]
        self.tokens = {n: make_token(self.office.store, "benchmark", n, hours=24) for n in people}
        self.sessions = {
            n: make_token(self.office.store, "benchmark", n, hours=24, scope="session")
            for n in people
        }
        self.start()
        self._open(epsilon)

    def start(self) -> float:
        """Start the command, and return the seconds until it answers."""
        began = time.monotonic()
        command = [sys.executable, "-m", "sfumato", "serve", str(self.folder / "data")]
        command += ["--state", str(self.folder / "state"), "--port", str(self.port)]
        command += ["--database", self.database] if self.database else []
        with (self.folder / "output.txt").open("a") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        self.wait_until_up()
        return time.monotonic() - began

    def wait_until_up(self) -> None:
        for _ in range(15_000):
            with contextlib.suppress(httpx.HTTPError):
                if self.call("olga", "GET", "/me").status_code == 200:
                    return
            time.sleep(0.02)
        told = (self.folder / "output.txt").read_text()[-3000:]
        raise RuntimeError(f"the service did not start: {told}")

    def call(self, who: str, method: str, path: str, body: Any = None, key: str = "") -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        headers |= {"Idempotency-Key": key} if key else {}
        place = f"http://127.0.0.1:{self.port}"
        if path.startswith("page:"):  # of the studio, by a session
            headers = {"Cookie": f"{COOKIE}={self.sessions[who]}"}
            return self.http.request(method, f"{place}{path[5:]}", headers=headers)
        return self.http.request(method, f"{place}/api/v1{path}", json=body, headers=headers)

    def _open(self, epsilon: float) -> None:
        body = {"name": "rows", "path": "rows.csv", "target": "ill", "protected": "nobody"}
        body |= {"why": "a benchmark", "epsilon": epsilon, "delta": 1e-6, "auto_approve": 100}
        self.call("olga", "POST", "/datasets", body).raise_for_status()
        while self.call("olga", "GET", "/datasets/rows").json()["state"] == "describing":
            time.sleep(0.1)
        for column in ("age", "bmi", "ill"):
            self.call("olga", "PUT", f"/datasets/rows/columns/{column}", {}).raise_for_status()
        self.call("olga", "PUT", "/datasets/rows/format", {})
        self.call("olga", "POST", "/datasets/rows/open", {"one_row_per_person": True})
        for place in range(ANALYSTS):
            path = f"/datasets/rows/quotas/a{place}"
            self.call("olga", "PUT", path, {"epsilon": epsilon / 3}).raise_for_status()

    def parts(self) -> dict[str, int]:
        """Return the process of each part."""
        found = {}
        for name in ("web", "workers"):
            with contextlib.suppress(OSError, ValueError):
                number = int((self.folder / "state" / f"{name}.pid").read_text())
                if Path(f"/proc/{number}").exists():
                    found[name] = number
        return found

    def targets(self) -> dict[str, list[int]]:
        """Return what may be killed: parts, and the jobs of the workers."""
        parts = self.parts()
        jobs = children_of(parts.get("workers", 0))
        return {name: [one] for name, one in parts.items()} | ({"job": jobs[:1]} if jobs else {})

    def settled(self) -> dict[str, str]:
        """Wait until every job has ended, and return their states."""
        while True:
            jobs = self.looked(self.office.store.jobs)
            if not [one for one in jobs if one["state"] in ("queued", "running")]:
                return {one["id"]: one["state"] for one in jobs if "estimator" in one["task"]}
            time.sleep(0.2)

    @staticmethod
    def looked(look: Callable[[], Any]) -> Any:
        """Look into the store, again where the database has just come back."""
        for _ in range(100):
            with contextlib.suppress(ServiceError):
                return look()
            time.sleep(0.1)
        return look()

    def faults(self, states: dict[str, str]) -> dict[str, int]:
        """Count what must not be: releases and charges that do not match, sums that do not hold."""
        budget = SharedBudget(Ledger(self.settings.ledger_address), "rows")
        charges = {(line.note.reference, line.mark) for line in budget.dataset.lines()}
        references = Counter(reference for reference, _ in charges)
        releases = {one["id"] for one in self.office.store.releases()}
        budget.verify()
        self.office.store.verify_audit()
        return {
            "uncharged releases": len(releases - set(references)),
            "charged twice": sum(count > 1 for count in references.values()),
            "released without a file": sum(
                not (self.settings.releases / one / "guarantee.json").exists() for one in releases
            ),
            "charged and neither released nor named lost": sum(
                states.get(str(one)) not in ("released", "lost") for one in references
            ),
            "overspent": sum(not one.filter.admits(one.cost) for one in budget.holdings()),
        }

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.office.store.close()


@contextlib.contextmanager
def service(epsilon: float, database: str | None = None) -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="sfumato-service-") as folder:
        made = Service(Path(folder), database, epsilon)
        try:
            yield made
        finally:
            made.stop()


def crowd(share: float, database: str | None = None) -> dict[str, Any]:
    """Two hundred submits by twenty analysts at once, while others ask for states."""
    n_submits = max(20, int(200 * share))
    with service(1.5, database) as made:
        body = {**BODY, "epsilon": 0.2}

        def submit(number: int) -> tuple[str, float]:
            began = time.perf_counter()
            answer = made.call(f"a{number % ANALYSTS}", "POST", JOBS, body, f"key {number}")
            word = answer.json().get("error", "")
            return f"{answer.status_code} {word}".strip(), time.perf_counter() - began

        with watched(made) as calls:
            began = time.monotonic()
            with ThreadPoolExecutor(20) as pool:
                told = list(pool.map(submit, range(n_submits)))
            ended = time.monotonic()
            states = made.settled()
            worked = time.monotonic()
        all_calls = [one for one in calls if began <= one[0] <= worked]
        first = [one for one in all_calls if one[0] <= ended]
        answers = Counter(answer for answer, _ in told)
        return {
            "database": "sqlite" if database is None else "postgresql",
            "submits": n_submits,
            "accepted": answers["202"],
            "answers": dict(answers),
            "ends": dict(Counter(states.values())),
            "faults": made.faults(states),
            "submitting_s": round(ended - began, 1),
            "working_s": round(worked - began, 1),
            "submit_p95_ms": quantile_ms([seconds for _, seconds in told], 0.95),
            "status_calls": len(all_calls),
            "status_p50_ms": quantile_ms([seconds for _, seconds in all_calls], 0.5),
            "status_p95_ms": quantile_ms([seconds for _, seconds in all_calls], 0.95),
            "status_calls_while_submitting": len(first),
            "status_p95_ms_while_submitting": quantile_ms([seconds for _, seconds in first], 0.95),
            "load_average": os.getloadavg()[0],
        }


def quantile_ms(seconds: list[float], share: float) -> float | None:
    return round(1000 * float(np.quantile(seconds, share)), 1) if seconds else None


@contextlib.contextmanager
def watched(made: Service) -> Iterator[list[tuple[float, float]]]:
    """Let analysts ask for the state of a job of theirs, in a process of its own.

    One with the threads that submit would measure how these wait for each other.
    """
    asked = []
    for place in range(WATCHERS):
        who = f"a{place}"
        job = made.call(who, "POST", JOBS, {**BODY, "epsilon": 0.01}, "watched").json()["id"]
        asked.append((f"http://127.0.0.1:{made.port}/api/v1/jobs/{job}", made.tokens[who]))
    made.settled()
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=watch, args=(theirs, asked))
    process.start()
    found: list[tuple[float, float]] = []
    try:
        ours.recv()  # it is there
        yield found
    finally:
        ours.send("enough")
        found += ours.recv()
        process.join()


def watch(line: Any, asked: list[tuple[str, str]]) -> None:
    """Ask for states until somebody says enough; return moments and durations."""
    found: list[tuple[float, float]] = []
    done = threading.Event()
    client = httpx.Client(timeout=300, trust_env=False)

    def look(place: str, token: str) -> None:
        while not done.is_set():
            moment, began = time.monotonic(), time.perf_counter()
            answer = client.get(place, headers={"Authorization": f"Bearer {token}"})
            answer.raise_for_status()
            found.append((moment, time.perf_counter() - began))
            time.sleep(0.25)

    threads = [threading.Thread(target=look, args=one) for one in asked]
    for thread in threads:
        thread.start()
    line.send("ready")
    line.recv()
    done.set()
    for thread in threads:
        thread.join()
    line.send(found)


def kills(share: float, seconds: float, server: PostgreSQL | None = None) -> dict[str, Any]:
    """Kill -9 of the web process, the workers, their jobs and the database, at random moments."""
    n_kills, rng = max(5, int(500 * share)), random.Random(0)
    ended: Counter[str] = Counter()
    restarts: dict[str, list[float]] = {"web": [], "database itself": [], "after the database": []}
    seen = Seen()
    start = time.monotonic()
    with service(60.0, None if server is None else server.address) as made:
        function = made.call("a0", "POST", JOBS, {**FUNCTION, "epsilon": 1.0}).json()["id"]
        made.settled()
        done = threading.Event()
        watcher = threading.Thread(target=seen.watch, args=(made, function, done))
        watcher.start()
        for number in range(n_kills):
            if time.monotonic() - start > seconds:
                break
            who = f"a{number % ANALYSTS}"
            with contextlib.suppress(httpx.HTTPError):
                made.call(who, "POST", JOBS, {**BODY, "epsilon": 0.1}, f"key {number}")
            time.sleep(rng.uniform(0, 0.4))
            targets = made.targets() | ({} if server is None else {"database": [server.pid]})
            name = rng.choice(sorted(targets))
            began = time.monotonic()
            for process in targets[name]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            ended[name] += 1
            if name == "database" and server is not None:
                server.start()
                restarts["database itself"].append(time.monotonic() - began)
                began, name = time.monotonic(), "after the database"
            if name in restarts:
                made.wait_until_up()
                restarts[name].append(time.monotonic() - began)
        done.set()
        watcher.join()
        states = made.settled()
        return {
            "database": "sqlite" if server is None else "postgresql",
            "killed": dict(ended),
            "kills": sum(ended.values()),
            "ends": dict(Counter(states.values())),
            "results_told": len(seen.digests),
            "answers_told": len(seen.answers),
            "faults": {**made.faults(states), **seen.faults(made, function)},
            "restart_s": {
                name: {"median": round(float(np.median(found)), 2), "largest": round(max(found), 2)}
                for name, found in restarts.items()
                if found
            },
            "seconds": round(time.monotonic() - start),
            "load_average": os.getloadavg()[0],
        }


class Seen:
    """What somebody has seen: results, and answers of a density. None may change."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.answers: dict[float, float] = {}
        self.contradicted = 0

    def watch(self, made: Service, function: str, done: threading.Event) -> None:
        rng = random.Random(1)
        while not done.is_set():
            with contextlib.suppress(httpx.HTTPError, KeyError, ValueError):
                self.ask(made, function, float(rng.randrange(20, 90)))
                told = made.call("olga", "GET", "/releases")
                for one in told.json()[:3] if told.status_code == 200 else ():
                    if one["id"] not in self.digests:
                        self.digests[one["id"]] = self.digest(made, one["id"])
            time.sleep(0.3)

    def ask(self, made: Service, function: str, point: float) -> None:
        path, body = f"/releases/{function}/ask", {"points": [[point]]}
        (value,) = made.call(f"a{int(point) % ANALYSTS}", "POST", path, body).json()["values"]
        self.contradicted += self.answers.setdefault(point, value) != value

    @staticmethod
    def digest(made: Service, release: str) -> str:
        answer = made.call("olga", "GET", f"/releases/{release}/files/guarantee.json")
        answer.raise_for_status()
        found = sha256(answer.content)
        for path in sorted((made.settings.releases / release).iterdir()):
            found.update(path.read_bytes())
        return found.hexdigest()

    def faults(self, made: Service, function: str) -> dict[str, int]:
        changed = sum(self.digest(made, one) != text for one, text in self.digests.items())
        for point in list(self.answers):  # all of them once more
            for _ in range(200):
                with contextlib.suppress(KeyError):
                    self.ask(made, function, point)
                    break
                time.sleep(0.1)
        return {
            "results that were shown and changed or lost": changed,
            "answers contradicted": self.contradicted,
        }


class PostgreSQL:
    """A server of its own on loopback, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        self.binaries = Path(shutil.which("initdb") or installed[-1]).resolve().parent
        self.folder = folder
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user is not None:
            shutil.chown(folder, self.user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"postgresql://ann@127.0.0.1:{self.port}/postgres"
        made = [self.binaries / "initdb", "-D", folder / "data", "-U", "ann", "-A", "trust"]
        subprocess.run(made, check=True, user=self.user, cwd=folder, stdout=subprocess.DEVNULL)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it, as an init system does: again until the children of a dead one are gone."""
        import psycopg

        command = [self.binaries / "postgres", "-D", self.folder / "data", "-k", self.folder]
        command += ["-c", "listen_addresses=127.0.0.1", "-p", str(self.port)]
        for _ in range(3000):
            if self.process is None or self.process.poll() is not None:
                quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                self.process = subprocess.Popen(command, user=self.user, cwd=self.folder, **quiet)
            with contextlib.suppress(psycopg.Error), psycopg.connect(self.address):
                return
            time.sleep(0.02)
        raise RuntimeError("PostgreSQL did not start")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)


@contextlib.contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    with tempfile.TemporaryDirectory(prefix="sfumato-postgresql-") as folder:
        made = PostgreSQL(Path(folder))
        try:
            yield made
        finally:
            made.stop()


def children_of(process: int) -> list[int]:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
        return [int(one) for one in text.split()]
    return []


def commit() -> str:
    """Return the commit that is served, as far as git says."""
    folder = Path(__file__).parents[1]
    asked = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="crowd, kills")
    parser.add_argument("--share", type=float, default=1.0, help="of the full size")
    parser.add_argument("--databases", default="sqlite,postgresql", help="to run on")
    parser.add_argument("--seconds", type=float, default=3600, help="most time for kills")
    arguments = parser.parse_args()
    share, databases = arguments.share, arguments.databases.split(",")
    for name in arguments.names or ("crowd", "kills"):
        numbers: list[dict[str, Any]] = []
        if "sqlite" in databases:
            numbers += [crowd(share) if name == "crowd" else kills(share, arguments.seconds)]
        if "postgresql" in databases:
            with postgresql() as server:
                numbers += [
                    crowd(share, server.address)
                    if name == "crowd"
                    else kills(share, arguments.seconds, server)
                ]
        write(f"service_{name}", numbers, seed=0, share=arguments.share, commit=commit())


if __name__ == "__main__":
    main()
