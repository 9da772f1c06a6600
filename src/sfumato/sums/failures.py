"""Failures of engines, reported without what their messages may hold of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.exceptions import EngineError, SfumatoError


@contextmanager
def reported(engine: str) -> Iterator[None]:
    """Raise an `EngineError` for whatever an engine raises; our own messages hold no cell."""
    try:
        yield
    except EngineError:
        raise
    except SfumatoError as error:
        raise EngineError(f"A part of the records was not added up by {engine}: {error}") from None
    except Exception as error:
        raise EngineError(
            f"A part of the records was not added up: {engine} gave up with "
            f"{type(error).__name__}. Its own log says more."
        ) from None
