"""Stored prompts in turns: a prompt is read when its turn begins, and is part of the input from then on."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core import prompts
from antiphon_core.errors import NotFound
from antiphon_core.ids import is_prompt_id
from antiphon_core.jsons import Object, loads
from antiphon_core.limits import PROMPT_VERSIONS_ITEMS_MAX
from antiphon_core.ports.prompts import Prompt, PromptStore
from antiphon_core.request.body import CreateRequest


async def read(store: PromptStore, tenant: str, request: CreateRequest) -> Prompt | None:
    """Reads the prompt that a request names, if it names one. NotFound: there is no such prompt or version."""
    named = request.prompt
    if named is None:
        return None
    version = int(named.version) if named.version is not None else None
    if not is_prompt_id(named.id):
        raise NotFound(f"Prompt with id '{named.id}' not found.", field="prompt.id")
    if version is not None and version > PROMPT_VERSIONS_ITEMS_MAX:
        raise NotFound(f"Prompt with id '{named.id}' has no version {version}.", field="prompt.version")
    try:
        return await store.get_prompt(tenant, named.id, version=version)
    except NotFound as error:
        error.field = "prompt.version" if "version" in error.facts else "prompt.id"
        raise


def work_bytes(request: CreateRequest, prompt: Prompt | None) -> int:
    """The upper bound of the size of a request's prompt with its values, which determines how long work on it takes."""
    if request.prompt is None or prompt is None:
        return 0
    return prompts.rendered_bytes_max(prompt.content, request.prompt.values)


def filled_in(
    request: CreateRequest, prompt: Prompt | None, given: str | Sequence[Object]
) -> tuple[Object, str | Sequence[Object]]:
    """Returns (parameters, input) of a request, with the instructions and the items of the prompt. The parameters name
    the version of the prompt that was read. InvalidRequest: a variable is missing or unknown, or its values are too
    large."""
    parameters = request.asked()
    if request.prompt is None or prompt is None:
        return parameters, given
    added = prompts.rendered(prompt.id, loads(prompt.content), request.prompt.values)
    parameters["prompt"] = parameters["prompt"] | {"version": str(prompt.version)}
    if added.instructions is not None:
        parameters.setdefault("instructions", added.instructions)
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return parameters, [*added.input, *given]
