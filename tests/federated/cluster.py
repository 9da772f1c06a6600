"""A real Flower deployment on loopback: one SuperLink, SuperNodes, TLS and node keys."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Self

from sfumato.federated.flower import processes
from sfumato.federated.flower.certificates import make_node_key, make_server_certificate
from sfumato.federated.flower.processes import SuperLink, free_port, stop

# A node costs half a minute of a processor: `make test-servers` starts five, and kills two.
NODES = int(os.environ.get("SFUMATO_NODES", "3"))


class Cluster:
    """Nodes are added by the file of their party; all processes end with the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        processes.START_SECONDS = 900.0  # a machine may be busy with other tests
        # A look at a run costs a second of a processor, which others need more than this test.
        processes.FIRST_PAUSE, processes.MAX_PAUSE = 5.0, 15.0
        make_server_certificate(folder, ["localhost", "127.0.0.1"])
        self.link = SuperLink(
            folder,
            [
                "--ssl-ca-certfile",
                str(folder / "ca.crt"),
                "--ssl-certfile",
                str(folder / "server.pem"),
                "--ssl-keyfile",
                str(folder / "server.key"),
                "--enable-supernode-auth",
            ],
            folder / "ca.crt",
        )
        # How often Flower's executors look for work; the default adds seconds to every message.
        self.link.environment["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = "0.5"
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.link.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for node in self.nodes.values():
            stop(node)
        self.link.__exit__(None, None, None)

    def add(
        self,
        name: str,
        party: Path,
        *,
        register: bool = True,
        key: Path | None = None,
        certificate: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start the SuperNode of a party."""
        if key is None:
            key = self.folder / name
            public = make_node_key(key)
            if register:
                self.link.flwr("supernode", "register", str(public), self.link.name)
        self.nodes[name] = self.link.start(
            "flower-supernode",
            "--superlink",
            f"127.0.0.1:{self.link.port}",
            "--port",
            str(free_port()),
            "--root-certificates",
            str(certificate or self.folder / "ca.crt"),
            "--auth-supernode-private-key",
            str(key),
            "--node-config",
            f"party={str(party)!r}",
        )
        return self.nodes[name]

    def run_script(self, name: str, script: Path) -> None:
        """Start a party's own script in a session of its own."""
        environment = self.link.environment | {"FLWR_HOME": str(script.parent / "flower-home")}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.nodes[name] = subprocess.Popen(
                [str(script)], env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill_program(self, program: str, *arguments: str) -> None:
        """Kill the one process of this cluster that runs a program of Flower, so called."""
        own = {f"127.0.0.1:{self.link.port}", *arguments}
        (victim,) = (
            int(place.name)
            for place in Path("/proc").iterdir()
            if place.name.isdigit() and _runs(place, program, own)
        )
        os.kill(victim, signal.SIGKILL)

    def kill(self, name: str) -> None:
        """Kill a SuperNode and everything below it, at once."""
        os.killpg(self.nodes[name].pid, signal.SIGKILL)
        self.nodes[name].wait()


def _runs(process: Path, program: str, arguments: set[str]) -> bool:
    try:
        words = (process / "cmdline").read_bytes().decode().split("\0")
    except OSError:  # it has ended
        return False
    return any(word.endswith(f"/{program}") for word in words) and arguments <= set(words)
