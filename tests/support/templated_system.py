"""All of Antiphon in one process before a model with a real chat template. The model gets token ids, or is behind a
scripted chat server that renders with that template and drops and refuses what the template drops and refuses.

The vocabulary is SmolLM2's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, loads
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.scripted import Emit, ScriptedEngine
from antiphon_translator.models import profiles, served_model
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.templates import jinja
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support.fake_chat import FakeChat, delta, ending, fake_chat
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.prompts import ids_in
from tests.support.served_models import END_ID, tokenizer, write_directory

GOLDEN = Path(__file__).parents[1] / "golden" / "templates"
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


@dataclass(frozen=True)
class TemplatedSystem:
    """A running system. `prompts` returns the model's prompts turn by turn; `server` is the server behind the chat
    engine."""

    http: Http
    prompts: Callable[[], Sequence[str]]
    server: FakeChat = field(default_factory=FakeChat)

    async def ask(self, items: Sequence[Object], **members: Any) -> Object:
        """Returns the answer to these items. AssertionError: the request failed."""
        answer = await self.http.create(model="m", input=list(items), **members)
        assert answer.status == 200, answer.body
        found: Object = answer.json
        return found


def source_of(template: str) -> str:
    """Returns the template whose file name begins with this name."""
    (path,) = GOLDEN.glob(f"{template}*.jinja")
    return path.read_text("utf-8")


@cache
def _compiled(template: str) -> JinjaTemplate:
    return JinjaTemplate(source_of(template), special_tokens=SPECIAL_TOKENS)


def rendering(template: str) -> Callable[[Object], str]:
    """Returns a function that renders requests of chat completions as a server does: roles and texts unchanged,
    arguments as objects."""
    compiled = _compiled(template)._template

    def render(request: Object) -> str:
        for message in request["messages"]:
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = loads(call["function"]["arguments"])
        offered = {**SPECIAL_TOKENS, "tools": request.get("tools"), "strftime_now": jinja._clock(0)}
        try:
            return compiled.render(offered | {"messages": request["messages"], "add_generation_prompt": True})
        except jinja._TEMPLATE_FAULTS as error:
            raise InvalidRequest(str(error)) from error

    return render


@asynccontextmanager
async def by_tokens(template: str) -> AsyncIterator[TemplatedSystem]:
    """Runs a system whose model gets token ids, which are encoded here."""
    engine = ScriptedEngine([Emit([*tokenizer().encode("Yes."), END_ID])])
    model = _loaded(template, endpoint="triton:8001")

    def prompts() -> Sequence[str]:
        return [model.tokenizer.decode(ids_in(request)) for request in engine.requests]

    async with running((model, engine)) as system:
        yield TemplatedSystem(system.http, prompts)


@asynccontextmanager
async def by_chat(template: str, *, is_seen: bool = True, **members: Any) -> AsyncIterator[TemplatedSystem]:
    """Runs a system whose model is behind a chat server. `members` are further members of its profile; without
    `is_seen` the profile has no directory."""
    async with fake_chat() as fake:
        fake.render, fake.script = rendering(template), [delta(content="Yes."), *ending()]
        members |= {"engine": "openai_chat"}
        profile = profiles.from_values({"name": "m", "endpoint": fake.endpoint} | members)
        model = _loaded(template if is_seen else None, endpoint="http://chat:8000/v1", **members)
        async with running((model, OpenAIChatEngine(profile))) as system:
            yield TemplatedSystem(system.http, lambda: fake.prompts, fake)


@cache
def _loaded(template: str | None, **members: Any) -> ServedModel:
    """Loads the model of a profile with these members, once for all systems. Without a template the profile has no
    directory."""
    with TemporaryDirectory() as folder:
        if template is not None:
            directory = write_directory(Path(folder) / "model")
            (directory / "chat_template.jinja").write_text(source_of(template), "utf-8")
            members |= {"directory": str(directory)}
        return served_model.load(profiles.from_values({"name": "m"} | members))
