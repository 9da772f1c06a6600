"""The web process: it answers people and programs, and cannot read rows."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI

from sfumato.service import api, auth
from sfumato.service.access import Limiter
from sfumato.service.office import ServiceApi
from sfumato.service.settings import Settings
from sfumato.service.studio import pages

ABOUT = """One privacy budget that officers, analysts and auditors share.

Send your token in the header Authorization, after the word Bearer. Errors have a word, "error", and
a sentence, "message"; they never depend on rows. A submit with an Idempotency-Key may be repeated.
"""
AT_ONCE = 2  # submits
TAGS = {
    "people": "Who may do what: people, roles and tokens.",
    "data sets": "What may be asked: public facts, budgets and quotas; never a row.",
    "jobs": "Requests for releases: planned, submitted, approved, followed.",
    "releases": "What was released: models, tables, guarantees, certificates, functions to ask.",
    "audit": "Who spent what, and whether every line is intact.",
    "service": "Whether the service answers.",
}


def create_app(settings: Settings) -> FastAPI:
    """Make the app of a service; nothing is done before."""
    import sfumato

    app = FastAPI(
        title="Sfumato service",
        version=sfumato.__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        openapi_tags=[{"name": name, "description": text} for name, text in TAGS.items()],
    )
    app.state.office = ServiceApi(settings)
    app.state.turns = asyncio.Semaphore(AT_ONCE)
    app.state.limiter = Limiter(settings.requests_per_second)
    app.state.failures = Limiter(0.5)  # wrong tokens per address
    app.state.secret = settings.secret()
    auth.install(app)
    app.include_router(api.router)
    pages.install(app)

    @app.get("/api/health", tags=["service"])
    def health() -> dict[str, str]:
        """Whether the service and its store answer."""
        app.state.office.store.people()
        return {"status": "ok"}

    return app
