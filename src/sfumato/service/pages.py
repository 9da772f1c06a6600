"""How templates are rendered."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import ChainableUndefined, Environment, PackageLoader, select_autoescape

from sfumato.cli.options import words_of
from sfumato.privacy.guarantee import rounded_up
from sfumato.report.words import scientific
from sfumato.service.access import Person
from sfumato.tables.columns import arrow_kind
from sfumato.tables.schema import TableBounds


def _figure(value: Any) -> str:
    """Write a number to four digits, none too small, a tiny one as a power of ten."""
    text = "–" if value is None else rounded_up(float(value), 4)
    return scientific(float(value)) if "e-" in text else text


_templates = Environment(
    loader=PackageLoader("sfumato.service"),
    autoescape=select_autoescape(default=True),
    undefined=ChainableUndefined,
    trim_blocks=True,
)
_templates.filters |= {
    "figure": _figure,
    "bounds": TableBounds.from_record,
    "facts": words_of,
    "left": lambda value: rounded_up(-float(value), 4).lstrip("-"),  # none too large
    "percent": lambda value: f"{100 * float(value):.1f} %",
    "time": lambda text: str(text)[:16].replace("T", " "),
    "plain": lambda end: f"{end:.15g}" if isinstance(end, float) else "" if end is None else end,
    "is_number": lambda column: bool(arrow_kind(str(column["type"]))),
}


def page(
    request: Request, template: str, who: Person | None = None, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """Render a template for a person."""
    office = request.app.state.office
    is_officer = who is not None and who.role == "officer"
    n_waiting = office.store.counts()[0].get("waiting", 0) if is_officer else 0
    shared = {"who": who, "n_waiting": n_waiting, "is_studio": office.settings.is_studio}
    return HTMLResponse(_templates.get_template(template).render(shared | values), status)
