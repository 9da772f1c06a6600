"""`service.toml`: people, data sets and limits, as the operator declares them.

It is read again when it changes. Nothing in it can be changed over HTTP.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from sfumato.exceptions import InvalidInputError
from sfumato.report.certificate import new_key


def decimal_point(value: Any) -> Any:
    """Return a number's text with a point where it has a decimal comma."""
    is_text = isinstance(value, str) and value.count(",") == 1 and "." not in value
    return value.replace(",", ".") if is_text else value


Epsilon = Annotated[float, BeforeValidator(decimal_point), Field(gt=0, le=100, allow_inf_nan=False)]
Delta = Annotated[float, Field(ge=0, lt=0.1, allow_inf_nan=False)]
Name = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_@-][A-Za-z0-9_.@-]*$")
]
Line = Annotated[
    str, Field(max_length=400, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$")
]
OWNER = "you"  # the one person of a studio
MIN_SPACE = 100e6  # bytes of the disk without which nothing is charged

log = logging.getLogger("sfumato.service")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class Member(_Table):
    """A person: officers answer for data, analysts ask, auditors read, an owner does it all."""

    role: Literal["officer", "analyst", "auditor", "owner"]


class Dataset(_Table):
    """A data set: where its rows are, who is protected, and what may be spent by whom."""

    path: str  # a file, relative to service.toml
    target: Line | None = None
    person: Line | None = None
    unit: Literal["record", "person"] | None = None  # by default a person, where bounds name one
    relation: Literal["replace_one", "add_or_remove_one"] = "replace_one"
    protected: Line = "everybody in the table"
    why: Line = "not stated"
    epsilon: Epsilon = 3.0
    delta: Delta = 1e-6
    kind: Literal["pure", "gaussian", "renyi"] | None = None
    budget: Name | None = None  # that of another data set about the same people
    auto_approve: Annotated[float, Field(ge=0, le=100)] = 0.0
    retired: bool = False
    quotas: dict[Name, Epsilon] = {}


class Service(_Table):
    """Where the service listens and keeps its state, and its limits."""

    state: str = "state"
    database: str | None = None  # URL of PostgreSQL for ledger and store
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    behind_proxy: bool = False  # a proxy in front handles HTTPS
    sign_in_header: Name | None = None  # in which that proxy names the person
    workers: Annotated[int, Field(ge=1, le=64)] = 2
    memory: Annotated[int, Field(ge=512)] = 4096  # megabytes per job
    seconds: Annotated[int, Field(ge=1)] = 3600  # per job
    requests_per_second: Annotated[float, Field(gt=0)] = 50.0  # per person
    max_jobs: Annotated[int, Field(ge=1)] = 20  # of one person, waiting, queued or running
    keep_days: Annotated[int, Field(ge=1)] | None = None  # jobs and releases are then deleted
    witness: str | None = None  # file of the newest heads, best on another disk
    controller: Line | None = None


class Config(_Table):
    """All of `service.toml`."""

    service: Service = Service()
    people: dict[Name, Member] = {}
    datasets: dict[Name, Dataset] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> Config:
        for name, one in self.datasets.items():
            for person in one.quotas:
                if person not in self.people or self.people[person].role == "auditor":
                    raise ValueError(f"datasets.{name}.quotas: {person!r} is not an analyst")
            if one.budget is not None and one.budget not in self.datasets:
                raise ValueError(f"datasets.{name}.budget: there is no data set {one.budget!r}")
        if self.service.sign_in_header and not self.service.behind_proxy:
            raise ValueError("service.sign_in_header needs behind_proxy = true")
        return self


class Settings:
    """A service as it is declared now, and where it keeps its state."""

    def __init__(self, file: Path | None = None, config: Config | None = None) -> None:
        self.file = None if file is None else file.resolve()
        self.in_force, self._stamp = config or Config(), (0, 0)
        if self.file is not None:
            self.in_force = self._read()
        self.folder = Path.cwd() if self.file is None else self.file.parent
        self.state = self.folder / self.in_force.service.state
        service = self.in_force.service
        self.is_secure = service.behind_proxy
        database = service.database or os.environ.get("SFUMATO_SERVICE_DATABASE")
        self.ledger_address = database or str(self.state / "ledger.db")
        self.store_address = database or str(self.state / "service.db")
        self.releases, self.signing_key = self.state / "releases", self.state / "signing.key"
        self.witness = self.folder / (service.witness or self.state / "heads.json")
        for folder in (self.state, self.releases):
            folder.mkdir(mode=0o770, parents=True, exist_ok=True)
        if database is None:  # SQLite itself would keep the group from writing
            for address in (self.store_address, self.ledger_address):
                with suppress(FileExistsError):  # closing an older one would drop its locks
                    os.close(os.open(address, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o660))

    @property
    def config(self) -> Config:
        """What is declared now; a changed file that is wrong is not in force."""
        if self.file is not None:
            with suppress(OSError):
                found = self.file.stat()
                if (found.st_mtime_ns, found.st_ino) != self._stamp:
                    try:
                        self.in_force = self._read()
                    except InvalidInputError as error:
                        self._stamp = (found.st_mtime_ns, found.st_ino)
                        log.error("the changed file is not in force: %s", error)
        return self.in_force

    def _read(self) -> Config:
        file = Path(str(self.file))
        try:
            found = file.stat()
            config: Config = Config.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
        except OSError as error:
            raise InvalidInputError(f"'{self.file}' cannot be read: {error.strerror}.") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidInputError(f"'{self.file}': {place}: {first['msg']}.") from None
        except ValueError as error:
            raise InvalidInputError(f"'{self.file}' is not valid TOML: {error}.") from None
        if any(one.role == "owner" for one in config.people.values()):
            raise InvalidInputError(f"'{self.file}': the role 'owner' exists in a studio only.")
        self._stamp = (found.st_mtime_ns, found.st_ino)
        return config

    @property
    def has_space(self) -> bool:
        """Whether the disk has room for a release."""
        return shutil.disk_usage(self.state).free > MIN_SPACE

    @property
    def is_studio(self) -> bool:
        """Whether this is the studio of one person."""
        return self.file is None

    def secret(self) -> str:
        """Return the web process's secret, which signs sessions; made at first start."""
        path = self.state / "secret.key"
        with suppress(FileExistsError):
            place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(place, "w") as file:
                file.write(secrets.token_hex(32))
        return path.read_text()

    def key_for(self, part: str) -> Path | None:
        """Return the key that signs; workers of another user have their own."""
        path = self.signing_key
        if part == "workers" and path.exists() and not os.access(path, os.R_OK):
            path = self.state / "workers-signing.key"
        if not path.exists():
            with suppress(ImportError, InvalidInputError):  # else nothing is signed
                new_key(path)
        return path if path.exists() else None

    def source(self, dataset: Dataset) -> tuple[Path, Path]:
        """Return where a table is, as it is named and in full."""
        place = self.folder / dataset.path
        return place, place.resolve()
