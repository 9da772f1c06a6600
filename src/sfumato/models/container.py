"""The container: a zip archive without compression whose members are checked by SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from sfumato.exceptions import SfumatoError, StoredModelError

FORMAT = "sfumato-model"
FORMAT_VERSION = 1
HEADER = "header.json"
CERTIFICATE = "certificate.json"  # a signed promise that may travel with the model
_SUMS = "SHA256SUMS"


def write_members(file: BinaryIO, members: dict[str, bytes]) -> None:
    """Write the members behind the list of their hashes."""
    sums = "".join(f"{_digest(data)}  {name}\n" for name, data in members.items())
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {_SUMS: sums.encode("ascii"), **members}.items():
            # A fixed date and mode, so that equal models give equal bytes.
            member = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3
            member.external_attr = 0o644 << 16
            archive.writestr(member, data)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Members]:
    """Open a stored model; whatever a bad file breaks on the way, the caller hears one thing."""
    try:
        with Path(path).open("rb") as file, zipfile.ZipFile(file) as archive:
            yield Members(archive, os.fstat(file.fileno()).st_size)
    except StoredModelError as error:
        raise StoredModelError(f"The saved model '{path}' is refused. {error}") from None
    except SfumatoError as error:
        raise StoredModelError(f"The saved model '{path}' cannot be rebuilt. {error}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoredModelError(f"The saved model '{path}' cannot be read: {reason}.") from error
    except MemoryError:  # the model is larger than this machine, which is no fault of the file
        raise
    except Exception as error:
        raise StoredModelError(
            f"The saved model '{path}' is damaged, was altered, or was not written by "
            f"sfumato.save ({type(error).__name__})."
        ) from error


class Members:
    """The members of an open file, each checked against its SHA-256 when it is read."""

    def __init__(self, archive: zipfile.ZipFile, file_size: int) -> None:
        _check_sizes(archive.infolist(), file_size)
        self.archive = archive
        lines = archive.read(_SUMS).decode("ascii").splitlines()
        self.sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
        if {_SUMS, *self.sums} != set(archive.namelist()):
            raise StoredModelError("Members are missing or were added.")

    def array_names(self) -> set[str]:
        """Return the names of all members that hold arrays."""
        return set(self.sums) - {HEADER, CERTIFICATE}

    def read(self, name: str) -> bytes:
        """Return one member, if its hash holds."""
        data = self.archive.read(name)
        if self.sums[name] != _digest(data):
            raise StoredModelError(f"The SHA-256 of its member {name!r} does not match.")
        return data

    def header(self) -> dict[str, Any]:
        """Return the header, if it is of a format version that can be read."""
        header: dict[str, Any] = json.loads(self.read(HEADER))
        if header["format"] != FORMAT:
            raise StoredModelError("Its header is not that of a Sfumato model.")
        if header["format_version"] > FORMAT_VERSION:
            raise StoredModelError(
                f"It has format version {header['format_version']}, written by Sfumato "
                f"{header['sfumato_version']}; Sfumato {running_version()} reads versions up to "
                f"{FORMAT_VERSION}. Update Sfumato to read it."
            )
        if header["sfumato_version"].startswith("0.1."):
            raise StoredModelError(
                f"It was written by Sfumato {header['sfumato_version']}, which this version does "
                "not read; Sfumato 0.2.0 brings it to a form that this version reads."
            )
        return header


def _check_sizes(members: list[zipfile.ZipInfo], file_size: int) -> None:
    """Refuse compression and sizes beyond the file itself, before any member is read."""
    if any(m.compress_type != zipfile.ZIP_STORED for m in members):
        raise StoredModelError("It is compressed, and Sfumato never compresses its files.")
    if any(m.compress_size != m.file_size for m in members):
        raise StoredModelError("It declares two sizes for one member.")
    if sum(m.file_size for m in members) > file_size:
        raise StoredModelError("It declares more bytes than it has.")
    if len({m.filename for m in members}) != len(members):
        raise StoredModelError("It contains two members with the same name.")


def running_version() -> str:
    """Return the version of Sfumato that runs now."""
    import sfumato  # here, because the package itself imports this module

    return sfumato.__version__
