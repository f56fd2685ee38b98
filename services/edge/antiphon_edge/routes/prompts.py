"""The Prompts API: /v1/prompts. A prompt has immutable versions. A turn names one of them as its `prompt`."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from antiphon_core import offload
from antiphon_core.errors import IdempotencyMismatch, InvalidRequest, NotFound, VersionMismatch
from antiphon_core.ids import Ids, is_prompt_id, new_prompt_id
from antiphon_core.jsons import Object, dumps
from antiphon_core.limits import PROMPT_VERSIONS_ITEMS_MAX
from antiphon_core.ports.prompts import Prompt, PromptStore
from antiphon_core.ports.store import Order
from antiphon_core.request.prompts import PutPrompt
from antiphon_edge import stored_content
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.operations.routing import serves
from antiphon_edge.prompt_rendering import variables_of
from antiphon_edge.routes import answers, bodies, queries
from antiphon_edge.routes.turn_headers import ids_under, key_of

_ALL = "/v1/prompts"
_ONE = _ALL + "/{id}"
ATTEMPTS_MAX = 5  # to add a version while other requests add versions to the same prompt


class PromptRoutes:
    """Handlers over the store."""

    def __init__(self, store: PromptStore, *, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    @serves("createPrompt")
    async def create(self, request: web.Request) -> web.Response:
        body = await bodies.parse_body(request, PutPrompt.of)
        tenant, key = tenant_of(request), key_of(request)
        prompt_id = new_prompt_id(ids_under(key, self._ids, "prompt", tenant))
        try:
            made = await self._store.put_prompt(tenant, prompt_id, 1, dumps(body.content))
        except VersionMismatch as error:
            if key is None:
                raise
            raise IdempotencyMismatch.of(key) from error
        return await _whole(made)

    @serves("addPromptVersion")
    async def add_version(self, request: web.Request) -> web.Response:
        """Adds a version, unless the latest version has the same content."""
        prompt_id, tenant = _id(request), tenant_of(request)
        content = dumps((await bodies.parse_body(request, PutPrompt.of)).content)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            latest = await self._store.get_prompt(tenant, prompt_id)
            if latest.content == content:
                return await _whole(latest)
            _require_room(latest)
            try:
                return await _whole(await self._store.put_prompt(tenant, prompt_id, latest.version + 1, content))
            except VersionMismatch:
                if attempt == ATTEMPTS_MAX:
                    raise
        raise AssertionError("the last attempt raises")

    @serves("getPrompt")
    async def retrieve(self, request: web.Request) -> web.Response:
        version = queries.number(request, "version", least=1, most=PROMPT_VERSIONS_ITEMS_MAX)
        return await _whole(await self._store.get_prompt(tenant_of(request), _id(request), version=version))

    @serves("listPrompts")
    async def list_all(self, request: web.Request) -> web.Response:
        found = list(await self._store.list_prompts(tenant_of(request)))
        if queries.order(request) is Order.DESCENDING:
            found.reverse()
        limit, after = queries.limit(request), request.query.get("after")
        ids = [prompt.id for prompt in found]
        if after is not None and after not in ids:
            raise InvalidRequest("'after' names no prompt.", field="after", code="invalid_value")
        start = ids.index(after) + 1 if after is not None else 0
        page = found[start : start + limit]
        return answers.json(
            {
                "object": "list",
                "data": [_head(prompt) for prompt in page],
                "first_id": page[0].id if page else None,
                "last_id": page[-1].id if page else None,
                "has_more": start + limit < len(found),
            }
        )

    @serves("deletePrompt")
    async def delete(self, request: web.Request) -> web.Response:
        prompt_id = _id(request)
        await self._store.delete_prompt(tenant_of(request), prompt_id)
        return answers.json({"id": prompt_id, "object": "prompt.deleted", "deleted": True})


def _require_room(latest: Prompt) -> None:
    """InvalidRequest: the prompt has the maximum number of versions."""
    if latest.version >= PROMPT_VERSIONS_ITEMS_MAX:
        raise InvalidRequest(
            f"Prompt '{latest.id}' has {PROMPT_VERSIONS_ITEMS_MAX:,} versions, the maximum. Create another prompt.",
            code="too_many_versions",
        )


async def _whole(prompt: Prompt) -> web.Response:
    return answers.json(await offload.run(partial(_prompt_json, prompt), size_bytes=len(prompt.content)))


def _prompt_json(prompt: Prompt) -> Object:
    content = stored_content.prompt_of(prompt)
    template = {"instructions": content.get("instructions"), "input": content.get("input", [])}
    return _head(prompt) | template | {"variables": variables_of(content)}


def _head(prompt: Prompt) -> Object:
    return {
        "id": prompt.id,
        "object": "prompt",
        "created_at": prompt.created_at_ms // 1000,
        "version": str(prompt.version),
        "latest_version": str(prompt.latest_version),
    }


def _id(request: web.Request) -> str:
    prompt_id = request.match_info["id"]
    if not is_prompt_id(prompt_id):
        raise NotFound(f"Prompt with id '{prompt_id}' not found.", id=prompt_id)
    return prompt_id
