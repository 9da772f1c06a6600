"""Reports as files, in the form that a suffix names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from sfumato.exceptions import InvalidInputError
from sfumato.storage.atomic_file import atomic_write

__all__ = ["write_form"]


def write_form(path: str | os.PathLike[str], forms: Mapping[str, Callable[[], str]]) -> None:
    """Write the form of a text that the suffix of a file asks for, aside and then renamed."""
    suffix = Path(path).suffix.lower()
    if suffix not in forms:
        *others, last = forms
        raise InvalidInputError(
            f"'path' must end in {', '.join(others)} or {last}. Got the suffix '{suffix}' instead."
        )
    text = forms[suffix]()
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "replace"))
