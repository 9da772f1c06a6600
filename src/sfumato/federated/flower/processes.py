"""Flower's own programs as child processes: one SuperLink, and runs on it.

Nothing outside this machine is contacted: no telemetry, no update check, no installation of
packages when a run starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sfumato.exceptions import FederationError

PROGRAMS = Path(sys.executable).parent
ADDRESS = "127.0.0.1"
START_SECONDS = 60.0
# Between two looks at a run: each starts a program of Flower, about a second of a processor.
FIRST_PAUSE, MAX_PAUSE = 0.5, 8.0
STORED = (
    "What the parties have released is stored with them: submit the run again, and nobody pays "
    "twice."
)
NO_HEARTBEAT = (
    "The coordinator's process did not report for a minute: it was killed, or its machine stopped."
)


def quiet_environment(home: Path) -> dict[str, str]:
    """Return the environment of every Flower process that is started here."""
    return {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        # Flower starts its helpers by name.
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


class SuperLink:
    """A SuperLink on loopback, ended with the block that it was started for.

    folder: For its log and for Flower's configuration.
    arguments: Further arguments of ``flower-superlink``; the default simulates parties.
    certificate: The certificate of the authority, where the link speaks TLS.
    """

    name = "here"

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str] = ("--insecure", "--simulation"),
        certificate: Path | None = None,
    ) -> None:
        self.folder = folder
        self.arguments = list(arguments)
        self.certificate = certificate
        self.port = free_port()
        self.environment = quiet_environment(folder / "flower-home")
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        home = self.folder / "flower-home"
        home.mkdir(parents=True, exist_ok=True)
        trust = (
            "insecure = true"
            if self.certificate is None
            else f"root-certificates = {json.dumps(str(self.certificate))}"
        )
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{self.name}"\n[superlink.{self.name}]\n'
            f'address = "{ADDRESS}:{self.port}"\n{trust}\n'
        )
        self.process = self.start(
            "flower-superlink",
            *self.arguments,
            "--host",
            ADDRESS,
            "--port",
            str(self.port),
            "--disable-runtime-dependency-installation",
        )
        try:
            self._wait_until_healthy()
        except BaseException:
            stop(self.process)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None:
            stop(self.process)

    def start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one of Flower's programs in a session of its own; its output goes to a log."""
        with (self.folder / f"{program}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - a fixed program of this environment
                [str(PROGRAMS / program), *arguments],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def submit(
        self, app: Path, config: Mapping[str, Any], federation: Mapping[str, Any] | None = None
    ) -> int:
        """Submit a run and return its number."""
        overrides = ["--federation-config", _pairs(federation)] if federation else []
        told = self.flwr(
            "run",
            str(app),
            self.name,
            "--run-config",
            _pairs(config),
            *overrides,
            "--format",
            "json",
        )
        answer = json.loads(told[told.index("{") :])
        if "run-id" not in answer:
            raise FederationError(f"The run was not accepted: {answer.get('error-message', told)}")
        return int(answer["run-id"])

    def wait(self, run: int, seconds: float) -> None:
        """Wait until a run is finished; a failed one raises with the reason and its log's end."""
        end, pause = time.monotonic() + seconds, FIRST_PAUSE
        while time.monotonic() < end:
            self._require_alive()
            told = self.flwr("list", self.name, "--run-id", str(run), "--format", "json")
            found = json.loads(told[told.index("{") :])["runs"][0]
            if found["status"] == "finished:completed":
                return
            if found["status"].startswith("finished"):
                log = self.flwr("log", str(run), self.name, "--show")
                raise FederationError(f"{_reason(found)} {STORED}\n{log[-3000:]}")
            time.sleep(pause)
            pause = min(pause * 1.5, MAX_PAUSE)
        raise FederationError(f"The run was not finished after {seconds:g} seconds. {STORED}")

    def flwr(self, *arguments: str) -> str:
        """Call Flower's command line and return what it prints."""
        done = subprocess.run(  # noqa: S603 - a fixed program of this environment
            [str(PROGRAMS / "flwr"), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise FederationError(f"flwr {arguments[0]} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def _wait_until_healthy(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            self._require_alive()
            if _healthy(self.port, self.certificate):
                return
            time.sleep(0.1)
        raise FederationError("The SuperLink did not answer in time.")

    def _require_alive(self) -> None:
        code = None if self.process is None else self.process.poll()
        if self.process is None or code is not None:
            log = (self.folder / "flower-superlink.log").read_text()
            raise FederationError(f"The SuperLink has ended with code {code}.\n{log[-3000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here, and what it started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()  # a child that is not waited for counts as alive
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its helpers linger some 20 seconds


def _reason(run: Mapping[str, Any]) -> str:
    """Return how a run ended and why, as far as Flower knows."""
    why = str(run.get("status-details") or "Flower gives no reason").rstrip(".")
    more = f" {NO_HEARTBEAT}" if "heartbeat" in why else ""
    return f"The run ended as '{run['status']}': {why}.{more}"


def _healthy(port: int, certificate: Path | None) -> bool:
    """Return whether the SuperLink answers; a certificate that is refused will not get better."""
    context = None if certificate is None else ssl.create_default_context(cafile=certificate)
    scheme = "http" if certificate is None else "https"
    try:
        with urllib.request.urlopen(  # noqa: S310 - loopback
            f"{scheme}://{ADDRESS}:{port}/health", timeout=1, context=context
        ) as answer:
            return bool(answer.status == 200)
    except OSError as error:  # a URLError is one
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise FederationError(
                f"The certificate of the SuperLink is refused: {reason.verify_message}. Make new "
                "ones, see `sfumato federate deploy --certificates`."
            ) from None
        return False


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
