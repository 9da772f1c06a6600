"""Tables in many files, or on a cluster, for the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.engines import FileParts, Partitions
from sfumato.engines.tables import GLOB, files_named
from sfumato.exceptions import EngineError, InvalidInputError
from sfumato.jobs.pipeline import PrivacyRequest, class_of, default_model, make_model, require_task
from sfumato.tables.schema import TableBounds

__all__ = ["fit_parts", "is_in_parts", "opened"]


def is_in_parts(path: Path, engine: str | None = None) -> bool:
    """Tell whether a table is in many files, or is to be read by an engine.

    Parameters
    ----------
    path : Path
        The table.
    engine : str, optional
        The engine that was asked for.
    """
    is_glob = bool(GLOB & set(str(path))) and not path.exists()
    return engine is not None or is_glob or path.is_dir()


@contextmanager
def opened(path: Path, engine: str | None = None) -> Iterator[Partitions]:
    """Open a table in many files, here or on a cluster.

    Parameters
    ----------
    path : Path
        A path, a glob, or a folder.
    engine : str, optional
        ``dask://host:port``, whose workers can read the files under the same path.
    """
    if engine is None:
        yield FileParts.of(path)
        return
    found = urlsplit(engine)
    if found.scheme != "dask" or not found.hostname or not found.port:
        raise InvalidInputError(f"'--engine' must be dask://host:port. Got {engine!r}.")
    try:
        from distributed import Client

        from sfumato.engines.dask import ClusterFiles
    except ImportError:
        raise InvalidInputError("Dask is not installed: pip install 'sfumato[dask]'.") from None
    try:
        client = Client(f"tcp://{found.hostname}:{found.port}", timeout=10)
    except OSError:
        raise EngineError(f"There is no scheduler at '{engine}'. Nothing was charged.") from None
    with client:
        files = sorted(map(str, path.rglob("*.*"))) if path.is_dir() else files_named(path)
        yield ClusterFiles(files)


def fit_parts(
    parts: Partitions,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    model: str | None = None,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """Train a private model on a table in parts.

    Parameters
    ----------
    parts : Partitions
        The table.
    bounds, promise, model, target, options
        As for `fit_table`.
    progress : callable, optional
        Is told of every part that was added up.
    """
    bounds.require_confirmed()
    estimator = make_model(
        class_of(model or default_model(bounds, promise)), promise, bounds, options
    )
    require_task(estimator, bounds.require_target(target))
    if progress is not None:
        told = progress
        parts.progress = lambda _, __: told(1)
    return estimator.fit(parts)
