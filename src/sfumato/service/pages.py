"""How templates are rendered."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import ChainableUndefined, Environment, PackageLoader, select_autoescape

from sfumato.cli.options import words_of
from sfumato.report.words import scientific
from sfumato.service.access import Person
from sfumato.tables.columns import arrow_kind
from sfumato.tables.schema import TableBounds


def _figure(value: Any) -> str:
    """Write a number to four digits, a tiny one as a power of ten."""
    text = "–" if value is None else f"{float(value):.4g}"
    return scientific(float(value)) if "e-" in text else text


_templates = Environment(
    loader=PackageLoader("sfumato.service"),
    autoescape=select_autoescape(default=True),
    undefined=ChainableUndefined,
    trim_blocks=True,
)
_filters: dict[str, Any] = {
    "figure": _figure,
    "bounds": TableBounds.from_record,
    "facts": words_of,
    "percent": lambda value: f"{100 * float(value):.1f} %",
    "time": lambda text: str(text)[:16].replace("T", " "),
    "plain": lambda end: f"{end:.15g}" if isinstance(end, float) else "" if end is None else end,
    "is_number": lambda column: bool(arrow_kind(str(column["type"]))),
}
_templates.filters |= _filters


def page(
    request: Request, template: str, who: Person | None = None, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """Render a template for a person."""
    office = request.app.state.office
    n_waiting = 0
    if who is not None and who.role == "officer":
        n_waiting = office.store.counts()[0].get("waiting", 0)
    shared = {"who": who, "n_waiting": n_waiting, "is_studio": office.settings.is_studio}
    text = _templates.get_template(template).render(**{**shared, **values})
    return HTMLResponse(text, status)
