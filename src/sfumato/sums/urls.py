"""Parquet and Feather files by URL: in a bucket, on HDFS, or ``file://``, read by Arrow."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.sums.partitions import Partitions
from sfumato.sums.table_parts import BATCH_ROWS, GLOB, LocalParts
from sfumato.tables.columns import arrow

URL = re.compile(r"^[a-z][a-z0-9+.-]+:/{1,3}(?=[^/])")  # a Path keeps one slash of several
PARQUET, FEATHER = (".parquet", ".pq"), (".feather", ".arrow")


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a path begins with a scheme."""
    return bool(URL.match(os.fspath(path)))


class UrlParts(LocalParts):
    """Files that a URL names, a part each; read again on every pass.

    url: Of a file, of a folder, or a glob in the last part of it: ``s3://clinic/visits/*.parquet``.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        text = os.fspath(url)
        self._url = text if "://" in text else text.replace(":/", "://", 1)
        if self._url.startswith("file://") and not self._url.startswith("file:///"):
            self._url = self._url.replace("file://", "file:///", 1)
        with _reported(self._url):
            self._system, self._files = _found(self._url)
            self.schema = self._open(self._files[0]).schema_arrow
        super().__init__(self._readers(None), list(self.schema.names))

    def declared(self, types: Mapping[str, str], text: Any = None) -> Partitions:  # noqa: ARG002
        """Read no more than these columns."""
        self._require(types)
        declared = LocalParts(self._readers(list(types)), list(types))
        declared.schema = self.schema
        return declared._reporting_as(self)

    def _readers(self, names: Sequence[str] | None) -> list[Callable[[], Iterable[Any]]]:
        return [partial(self._batches, path, names) for path in self._files]

    def _open(self, path: str) -> Any:
        source = self._system.open_input_file(path)
        if path.lower().endswith(FEATHER):
            return _Feather(arrow("ipc").open_file(source))
        return arrow("parquet").ParquetFile(source, pre_buffer=False)

    def _batches(self, path: str, names: Sequence[str] | None) -> Iterator[Any]:
        with _reported(self._url):
            for batch in self._open(path).iter_batches(BATCH_ROWS, columns=names):
                yield arrow().Table.from_batches([batch])


class _Feather:
    """A Feather file, read as a Parquet file is."""

    def __init__(self, reader: Any) -> None:
        self._reader, self.schema_arrow = reader, reader.schema

    def iter_batches(self, _: int, columns: Sequence[str] | None) -> Iterator[Any]:
        for number in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(number)
            yield batch if columns is None else batch.select(list(columns))


def _found(url: str) -> tuple[Any, list[str]]:
    """Return the file system of a URL, and the files that it names."""
    fs = arrow("fs")
    folder, _, last = url.rpartition("/")
    is_glob = bool(GLOB & set(last))
    system, place = fs.FileSystem.from_uri(folder if is_glob else url)
    info = system.get_file_info(place)
    if info.type == fs.FileType.Directory:
        inside = system.get_file_info(fs.FileSelector(place, recursive=not is_glob))
        named = [each for each in inside if not is_glob or fnmatchcase(each.base_name, last)]
        files = [
            each.path
            for each in named
            if each.type == fs.FileType.File and not each.base_name.startswith((".", "_"))
        ]
    else:
        files = [place] if info.type == fs.FileType.File else []
    if not files:
        raise InvalidInputError(f"There is no file '{url}'.")
    other = [path for path in files if not path.lower().endswith(PARQUET + FEATHER)]
    if other:
        raise InvalidInputError(
            f"Only Parquet and Feather files can be read by URL. '{other[0]}' is neither: copy it "
            "to this machine."
        )
    return system, sorted(files)


@contextmanager
def _reported(url: str) -> Iterator[None]:
    """Report failures of Arrow without what their messages may quote."""
    try:
        yield
    except InvalidInputError:
        raise
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"The table '{url}' cannot be read: {type(error).__name__}."
        ) from None
