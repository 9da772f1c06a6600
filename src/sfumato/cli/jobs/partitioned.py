"""Tables of the command line: a file, many files, or files that a cluster reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from sfumato.exceptions import EngineError, InvalidInputError
from sfumato.sums.partitions import Partitions
from sfumato.sums.table_parts import GLOB, FileParts, LocalParts, UrlParts, is_url
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds


def is_in_parts(path: Path, engine: str | None = None) -> bool:
    """Return whether a table is in many files, or is to be read by an engine."""
    is_glob = bool(GLOB & set(str(path))) and not path.exists()
    return engine is not None or is_glob or path.is_dir() or is_url(path)


@contextmanager
def opened(
    path: Path, bounds: TableBounds, engine: str | None = None
) -> Iterator[TableFile | Partitions]:
    """Open a table: one file, many of them, here or on a cluster."""
    if not is_in_parts(path, engine):
        yield TableFile(path, bounds.types(), bounds.text)
        return
    if engine is None:
        yield _files(path)
        return
    found = urlsplit(engine)
    if found.scheme != "dask" or not found.hostname or not found.port:
        raise InvalidInputError(f"'--engine' must be dask://host:port. Got {engine!r}.")
    try:
        from distributed import Client

        from sfumato.sums.dask import ClusterFiles
    except ImportError:
        raise InvalidInputError("Dask is not installed: pip install 'sfumato[dask]'.") from None
    try:
        client = Client(f"tcp://{found.hostname}:{found.port}", timeout=10)
    except OSError:
        raise EngineError(f"There is no scheduler at '{engine}'. Nothing was charged.") from None
    with client:
        yield ClusterFiles(_files(path))


def _files(path: Path) -> LocalParts:
    return UrlParts(path) if is_url(path) else FileParts.of(path)
