"""Where a service keeps its state, which data it may read, and its limits."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.report.certificate import new_key


@dataclass(frozen=True)
class Settings:
    """The settings of one service.

    state: Folder of stores, releases and keys; made if it is missing.
    data: Folder of the tables that may be registered; nothing outside of it is read.
    database: URL of PostgreSQL for ledger and store; by default SQLite files in `state`.
    workers: Jobs that run at once.
    memory: Megabytes of address space per job.
    seconds: Seconds of time per job.
    show_every: Results are shown at multiples of so many seconds, so that a duration tells nothing;
        0 shows them when they are stored.
    requests_per_second: Requests per person, on average.
    secure_cookies: Whether pages are reached by HTTPS only.
    databases: TOML file of databases whose tables may be registered: a name and a URL each. Workers
        read it; nobody names an address over HTTP.
    """

    state: Path
    data: Path
    database: str | None = None
    workers: int = 2
    memory: int = 4096
    seconds: int = 3600
    show_every: int = 0
    requests_per_second: float = 50.0
    secure_cookies: bool = False
    databases: str | None = None

    def prepared(self) -> Settings:
        """Make the folders and files that are missing."""
        if not Path(self.data).is_dir():
            raise InvalidInputError(f"The folder of data '{self.data}' does not exist.")
        for folder in (self.state, self.releases):
            folder.mkdir(mode=0o770, parents=True, exist_ok=True)
        if self.database is None:  # SQLite itself would keep the group from writing
            for address in (self.store_address, self.ledger_address):
                with suppress(FileExistsError):  # closing an older one would drop its locks
                    os.close(os.open(address, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o660))
        return self

    def secret(self) -> bytes:
        """Return the web process's secret, which ties forms to sessions; made at first start."""
        path = self.state / "secret.key"
        with suppress(FileExistsError):
            place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(place, "w") as file:
                file.write(secrets.token_hex(32))
        return path.read_bytes()

    @property
    def releases(self) -> Path:
        """Folder of released files, a folder per release."""
        return self.state / "releases"

    @property
    def signing_key(self) -> Path:
        """File of the key that signs statements and certificates."""
        return self.state / "signing.key"

    def key_of_workers(self) -> Path:
        """Return the key that signs certificates: that of statements, or one of the workers' own.

        Where the web process is another user of the machine, its key is not readable here.
        """
        if os.access(self.signing_key, os.R_OK):
            return self.signing_key
        own = self.state / "workers-signing.key"
        if not own.exists():
            with suppress(ImportError, InvalidInputError):  # else nothing is signed
                new_key(own)
        return own

    @property
    def ledger_address(self) -> str:
        """Where the ledger is kept."""
        return self.database or str(self.state / "ledger.db")

    @property
    def store_address(self) -> str:
        """Where people, data sets and jobs are kept."""
        return self.database or str(self.state / "service.db")

    def table(self, relative: str) -> Path:
        """Return a file of the data folder; anything outside of it is refused.

        relative: A path inside the data folder.
        """
        root = Path(self.data).resolve()
        try:
            path = (root / relative).resolve()
        except (OSError, ValueError):
            path = root
        if path == root or root not in path.parents:
            raise InvalidInputError("'path' must name a file or folder inside the data folder.")
        return path


def forbid_reading(folder: Path) -> None:
    """Refuse, in this process and for good, that Python opens a file of the data folder.

    folder: The data folder.
    """
    root = str(Path(folder).resolve())

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        name = arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
        if root in name or str(Path(name).resolve()).startswith(f"{root}/"):
            raise PermissionError("The web process does not read rows.")

    sys.addaudithook(refuse)
