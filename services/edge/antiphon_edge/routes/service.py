"""Health, models, metrics and version, with the paths and bodies of NIM."""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web

from antiphon_core.errors import ModelNotFound, Unavailable
from antiphon_core.jsons import Object
from antiphon_core.ports.store import ResponseStore
from antiphon_core.ports.translator import Model, Translator
from antiphon_core.telemetry.exposition import Exposition
from antiphon_core.version import VERSION
from antiphon_edge.operations.routing import serves
from antiphon_edge.routes import answers
from antiphon_edge.routes.readiness import Readiness
from antiphon_edge.shared_exposition import SharedExposition


class ServiceRoutes:
    """Handlers that need no request body."""

    def __init__(
        self, store: ResponseStore, translator: Translator, exposition: Exposition, readiness: Readiness
    ) -> None:
        self._store = store
        self._translator = translator
        self._metrics = SharedExposition(exposition.without_tenants())
        self._readiness = readiness
        self.is_draining = False

    @serves("listModels")
    async def models(self, _request: web.Request) -> web.Response:
        models = await self._translator.models()
        return answers.json({"object": "list", "data": [_model(model) for model in models]})

    @serves("getModel")
    async def model(self, request: web.Request) -> web.Response:
        wanted = request.match_info["id"]
        for model in await self._translator.models():
            if model.id == wanted:
                return answers.json(_model(model))
        raise ModelNotFound.of(wanted)

    @serves("getMetadata")
    async def metadata(self, _request: web.Request) -> web.Response:
        """The deployment, in the members of NIM. Assets and profiles belong to the engines, and are empty."""
        models = await self._translator.models()
        return answers.json(
            {
                "version": VERSION,
                "modelInfo": [{"shortName": model.id, "modelUrl": ""} for model in models],
                "assetInfo": [],
                "licenseInfo": {"name": "Apache-2.0"},
                "selectedModelProfileId": "",
                "repository_override": "",
            }
        )

    @serves("live")
    async def live(self, _request: web.Request) -> web.Response:
        return answers.json({"object": "health.response", "message": "Antiphon is live", "status": "live"})

    @serves("ready")
    async def ready(self, _request: web.Request) -> web.Response:
        """200 if the store and at least one model are ready, or were ready a moment ago (readiness.py); otherwise, and
        during a shutdown, 503. The message names the faults. An edge with a full store is ready: the others have the
        same store, and reads and deletes still work."""
        checks = await asyncio.gather(self._store.ready(), self._translator.ready(), return_exceptions=True)
        faults = [check for check in checks if isinstance(check, BaseException)]
        unexpected = [fault for fault in faults if not isinstance(fault, Unavailable)]
        if unexpected:
            raise unexpected[0]
        is_ready = self._readiness.update([fault for fault in faults if not _is_full(fault)]) and not self.is_draining
        if self.is_draining:
            faults.insert(0, Unavailable.at_shutdown("Use another replica."))
        message = " ".join(str(fault) for fault in faults) or "Antiphon is ready"
        status, code = ("ready", 200) if is_ready else ("not_ready", 503)
        return answers.json({"object": "health.response", "message": message, "status": status}, status=code)

    @serves("getMetrics")
    async def metrics(self, request: web.Request) -> web.Response:
        accept = ",".join(request.headers.getall(hdrs.ACCEPT, ()))
        text, content_type = await self._metrics.text(accept)
        return web.Response(body=text, headers={hdrs.CONTENT_TYPE: content_type})

    @serves("getVersion")
    async def version(self, _request: web.Request) -> web.Response:
        return answers.json({"release": VERSION, "api": "v1"})


def _is_full(fault: BaseException) -> bool:
    return isinstance(fault, Unavailable) and fault.is_full


def _model(model: Model) -> Object:
    return {
        "id": model.id,
        "object": "model",
        "created": model.created_at,
        "owned_by": "antiphon",
        "root": model.root,
        "max_model_len": model.context_length or None,
        "ready": model.ready,
    }
