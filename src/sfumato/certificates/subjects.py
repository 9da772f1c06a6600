"""What a certificate speaks of: the content of a model file or of a fabricated table."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.storage.atomic_file import atomic_write
from sfumato.storage.container import CERTIFICATE, opened, write_members
from sfumato.tables.files import FORMATS, TableFile, write_table
from sfumato.tables.notes import metadata_beside, note_of, read_note

__all__ = ["embed", "embedded_in", "promise_in", "subject_of"]

KEY = "certificate"  # in the metadata of a table
INSIDE = (".parquet", ".feather", ".arrow")


def subject_of(file: str | os.PathLike[str], *, by_another_program: bool = False) -> dict[str, str]:
    """Name a file and its content, without a certificate that it may carry.

    file: A model, or a fabricated table.
    by_another_program: Whether another program made the file; then all its bytes count.
    Returns: The name, the kind, and the SHA-256 of the content.
    """
    path = Path(file)
    if by_another_program:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return {"file": path.name, "kind": "file", "sha256": digest}
    is_table = path.suffix.lower() in FORMATS
    digest = _of_table(path) if is_table else _of_model(path)
    return {"file": path.name, "kind": "table" if is_table else "model", "sha256": digest}


def _of_model(path: Path) -> str:
    """Hash the list of the hashes of all members but the certificate."""
    with opened(path) as members:
        for name in members.sums:
            members.read(name)  # each is what its hash says
        lines = [f"{digest}  {name}\n" for name, digest in members.sums.items()]
    kept = [line for line in lines if not line.endswith(f"  {CERTIFICATE}\n")]
    return hashlib.sha256("".join(kept).encode()).hexdigest()


def _of_table(path: Path) -> str:
    """Hash names, types and values of a table that carries metadata, or the bytes of a text."""
    if path.suffix.lower() not in INSIDE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    table = TableFile(path).read(may_be_empty=True)
    found = hashlib.sha256()
    for name in table.column_names:
        column = table.column(name)
        values = [name, str(column.type), column.to_pylist()]
        found.update(json.dumps(values, default=str).encode() + b"\n")
    return found.hexdigest()


def promise_in(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Give class, guarantee and bounds that a file states.

    file: A model, or a fabricated table.
    Returns: Plain JSON values.
    """
    path = Path(file)
    if not path.is_file():
        raise InvalidInputError(f"There is no file '{path}'.")
    if path.suffix.lower() in FORMATS:
        stored = _table_record(path)
        return {"class": stored["class"], "guarantee": stored["guarantee"], "bounds": None}
    with opened(path) as members:
        header = members.header()
    if header["guarantee"] is None:
        raise InvalidInputError(f"'{path}' states no guarantee: it is not private.")
    model = header["model"]
    return {
        "class": model["class"],
        "guarantee": header["guarantee"],
        "bounds": model["parameters"].get("bounds"),
    }


def _table_record(path: Path) -> dict[str, Any]:
    beside = metadata_beside(path)
    try:
        stored: Any = read_note(beside) if beside.is_file() else TableFile(path).metadata()
        found = {**stored, "class": stored["class"], "guarantee": stored["guarantee"]}
    except (TypeError, KeyError):
        raise InvalidInputError(f"'{path}' contains no guarantee.") from None
    return found


def embed(certificate: str, file: str | os.PathLike[str]) -> None:
    """Put a certificate into a file; its content stays the same.

    Parameters
    ----------
    certificate : str
        The text of a signed certificate of that file.
    file : path-like
        A model, or a fabricated table of Parquet or Feather.
    """
    path = Path(file)
    if path.suffix.lower() in FORMATS:
        record = {**_table_record(path), KEY: certificate}
        if path.suffix.lower() not in INSIDE:  # in the note beside the text
            with atomic_write(metadata_beside(path)) as note:
                note.write(note_of(record))
            return
        write_table(TableFile(path).read(may_be_empty=True), path, record)
        return
    with opened(path) as members:
        parts = {name: members.read(name) for name in members.sums if name != CERTIFICATE}
    content = io.BytesIO()
    write_members(content, {**parts, CERTIFICATE: certificate.encode()})
    with atomic_write(path) as out:
        out.write(content.getvalue())


def embedded_in(file: str | os.PathLike[str]) -> str | None:
    """Give the text of the certificate that a file carries.

    Parameters
    ----------
    file : path-like
        A model, or a fabricated table.

    Returns
    -------
    str or None
        The certificate, unchecked.
    """
    path = Path(file)
    if path.suffix.lower() in FORMATS:
        found = _table_record(path).get(KEY)
        return None if found is None else str(found)
    with opened(path) as members:
        return members.read(CERTIFICATE).decode() if CERTIFICATE in members.sums else None
