"""Antiphon with models of four families for other people's clients: `python -m tests.support.client_models PORT`.

Each model has its original chat template and answers with the plays of client_plays.py, in token ids in its family's
format, so that the parsers of the product read them. SEER accepts images, and gets its prompt as text. Each family is
served a second time behind a server of chat completions that renders with its template.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from antiphon_core.jsons import dumps
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.generation import (
    Guide,
    GuideKind,
    Level,
)
from antiphon_translator.models import profiles, served_model
from antiphon_translator.models.served_model import ServedModel
from tests.support import client_plays
from tests.support.client_plays import HARMONY, HERMES, MISTRAL, QWEN_CODER, Format
from tests.support.fake_chat import FakeChat, delta, ending, fake_chat
from tests.support.in_process import running
from tests.support.prompted_model import PromptedModel
from tests.support.small_vocabulary import byte_tokenizer
from tests.support.templated_system import rendering, source_of


@dataclass(frozen=True)
class Family:
    """The beginning of a template's file name, and the format of the model's output."""

    template: str
    form: Format


MODELS: Mapping[str, Family] = {
    "qwen3": Family("Qwen-Qwen3-0.6B", HERMES),
    "qwen3.5": Family("Qwen3.5-4B", QWEN_CODER),
    "mistral-small": Family("Mistral-Small-3.2", MISTRAL),
    "gpt-oss": Family("openai-gpt-oss-120b", HARMONY),
}
CHAT = "-chat"
"""The suffix of names of MODELS for the families behind servers of chat completions."""
SEER = "qwen-vl"
_SEER = Family("Qwen3.5-4B", QWEN_CODER)
_CONTEXT_LENGTH = 200_000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def played_model(form: Format, level: Level) -> PromptedModel:
    """Returns an engine that answers with the next step of a play."""

    def answer(prompt: str, *, images: int, guide: Guide | None) -> list[str]:
        return client_plays.answer(prompt, form, images=images, guide=None if guide is None else _guided(guide))

    return PromptedModel(answer, byte_tokenizer(*form.control_tokens), level)


def _guided(guide: Guide) -> str:
    """Returns a text that the guide allows."""
    if guide.kind is GuideKind.JSON_SCHEMA:
        return json.dumps(client_plays.example(json.loads(guide.text)))
    return client_plays.CITY if guide.kind is GuideKind.JSON else guide.text


@asynccontextmanager
async def played_chat(name: str, family: Family) -> AsyncIterator[FakeChat]:
    """Runs a server of chat completions of the model `name`. It renders with the family's template, rejects requests
    that the template refuses, and answers with the next step of a play."""
    async with fake_chat(model=name, render=rendering(family.template)) as server:
        server.answer = lambda _: _chat_script(client_plays.next_step(server.prompts[-1], family.form))
        yield server


def _chat_script(step: client_plays.Step) -> list[bytes]:
    begun = [delta(role="assistant", content=""), delta(reasoning_content=client_plays.THOUGHT)]
    if isinstance(step, str):
        return [*begun, *(delta(content=letter) for letter in step), *ending()]
    function = {"name": step.name, "arguments": json.dumps(step.arguments)}
    call = {"index": 0, "id": "chatcmpl-tool-0123456789abcdef", "type": "function", "function": function}
    return [*begun, delta(tool_calls=[call]), *ending("tool_calls")]


def load(name: str, family: Family, folder: Path, **members: str) -> ServedModel:
    """Loads a model as an operator describes it: writes its directory, and finds its family by its template."""
    directory, form = folder / name, family.form
    directory.mkdir()
    tokenizer = byte_tokenizer(*form.control_tokens)
    tokenizer.library.save(str(directory / "tokenizer.json"))
    ends = [tokenizer.token_id(token) for token in dict.fromkeys((form.end, form.call_end))]
    (directory / "tokenizer_config.json").write_bytes(dumps({"bos_token": "<s>", "eos_token": form.end}))
    (directory / "generation_config.json").write_bytes(dumps({"eos_token_id": ends}))
    (directory / "config.json").write_bytes(dumps({"max_position_embeddings": _CONTEXT_LENGTH}))
    (directory / "chat_template.jinja").write_text(source_of(family.template), "utf-8")
    values = {"name": name, "directory": str(directory), "endpoint": "triton:8001"} | members
    return served_model.load(profiles.from_values(values))


async def serve(port: int) -> None:
    """Serves all models until the process is stopped. Prints the URL when the system is ready; the access log goes to
    stderr."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with played_models(port) as url:
        print(url, flush=True)
        await stopping.wait()


@asynccontextmanager
async def played_models(port: int = 0) -> AsyncIterator[str]:
    """Runs a system with all models, and yields its URL."""
    with tempfile.TemporaryDirectory(prefix="client-models-") as folder:
        async with AsyncExitStack() as stack:
            models: list[tuple[ServedModel, Engine]] = [
                (load(name, family, Path(folder)), played_model(family.form, Level.TOKENS))
                for name, family in MODELS.items()
            ]
            seer = load(SEER, _SEER, Path(folder), images="native")
            models.append((seer, played_model(_SEER.form, Level.TEXT)))
            for name, family in MODELS.items():
                chat = await stack.enter_async_context(played_chat(name, family))
                models.append(_behind(chat))
            system = await stack.enter_async_context(running(*models, workers=1, port=port))
            yield system.url


def _behind(chat: FakeChat) -> tuple[ServedModel, Engine]:
    """Returns the model of a chat server whose profile has only its address."""
    members = {"name": f"{chat.model}{CHAT}", "chat_model": chat.model, "engine": "openai_chat"}
    profile = profiles.from_values(members | {"endpoint": chat.endpoint})
    return served_model.load(profile), OpenAIChatEngine(profile)


def raise_loopback() -> None:
    """Starts the loopback interface, which is down in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control, suppress(PermissionError):
        flags = struct.unpack("16sh", fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0)))[1]
        if not flags & _IFF_UP:
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("antiphon_edge.access").setLevel(logging.INFO)
    raise_loopback()
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
