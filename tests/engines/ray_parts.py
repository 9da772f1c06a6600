"""The engines of the how-to on large tables, as its page says them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "large-tables.md"


def engines_of_the_page() -> dict[str, Any]:
    """Return the classes of the page by name; needs Ray."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"```(?:python|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for block in blocks:
        if "Parts(" in block:
            code = block.split("\n\n\nPrivateMoments(")[0]  # the class alone
            exec(compile(code, str(PAGE), "exec"), names)
    return names
