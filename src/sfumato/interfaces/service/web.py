"""The web process: it answers people and programs, and cannot read rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from sfumato.interfaces.service import api, doors
from sfumato.interfaces.service.access import Limiter
from sfumato.interfaces.service.office import Office
from sfumato.interfaces.service.settings import Settings

__all__ = ["create_app", "forbid_reading"]

ABOUT = """One privacy budget that officers, analysts and auditors share.

Send `Authorization: Bearer TOKEN`. Errors are `{"error": word, "message": text}` and never depend
on rows. A submit with an `Idempotency-Key` may be repeated.
"""


def create_app(settings: Settings) -> FastAPI:
    """Make the app of a service; nothing is done before.

    Parameters
    ----------
    settings : Settings
        Of the service.

    Returns
    -------
    FastAPI
        The app.
    """
    import sfumato

    app = FastAPI(
        title="Sfumato service",
        version=sfumato.__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.office = Office(settings)
    app.state.limiter = Limiter(settings.requests_per_second)
    doors.install(app)
    app.include_router(api.router)

    @app.get("/api/health", tags=["service"])
    def health() -> dict[str, str]:
        """Whether the service and its store answer."""
        app.state.office.store.people()
        return {"status": "ok"}

    return app


def forbid_reading(folder: Path) -> None:
    """Refuse, in this process and for good, that Python opens a file of the data folder.

    Parameters
    ----------
    folder : Path
        The data folder.
    """
    root = str(Path(folder).resolve())

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        name = arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
        if root in name or str(Path(name).resolve()).startswith(f"{root}/"):
            raise PermissionError("The web process does not read rows.")

    sys.addaudithook(refuse)
