"""Pages from templates, and files in the form that their suffix names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.privacy.attacker import FALSE_ALARMS, in_thousand, percent
from sfumato.report import words


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # here: only pages need it
    from markupsafe import Markup, escape

    def unbroken(text: str) -> Markup:
        """Keep a browser from breaking the line after the minus sign of 1e-05."""
        return Markup(  # noqa: S704 - escaped
            re.sub(r"[0-9.]+e-[0-9]+", r'<span class="number">\g<0></span>', str(escape(text)))
        )

    made = Environment(
        loader=PackageLoader("sfumato.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": words.number, "percent": percent, "unbroken": unbroken}
    made.filters["in_thousand"] = in_thousand
    made.globals |= {"words": words, "FALSE_ALARMS": FALSE_ALARMS}
    return made


def render(template: str, **values: Any) -> str:
    """Return a template filled with values; texts among them are escaped."""
    found: str = _templates().get_template(template).render(**values)
    return found


def write_form(path: str | os.PathLike[str], forms: Mapping[str, Callable[[], str]]) -> None:
    """Write the form of a text that the suffix of a file asks for, aside and then renamed."""
    suffix = Path(path).suffix.lower()
    if suffix not in forms:
        raise InvalidInputError(
            f"'path' must end in {' or '.join(forms)}. Got the suffix '{suffix}' instead."
        )
    text = forms[suffix]()
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "replace"))
