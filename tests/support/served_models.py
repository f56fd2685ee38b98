"""Models for tests: SmolLM2's real vocabulary and template, loaded once, and no network."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Turn
from antiphon_translator.conversation import Conversation
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt.prompt import EncodedPrompt, PromptEncoder
from antiphon_translator.prompt.tools import Tool, ToolSet
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.templates.roles import Roles
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from antiphon_translator.turn.turn_prompt import TurnPrompt

FILES = Path(__file__).with_name("smollm2")
RESPONSE_ID = "resp_" + "0" * 48
END_ID = 2
"""`<|im_end|>`"""


@cache
def _tokenizer_json() -> bytes:
    return gzip.decompress((FILES / "tokenizer.json.gz").read_bytes())


@cache
def tokenizer() -> ModelTokenizer:
    return ModelTokenizer(Tokenizer.from_buffer(_tokenizer_json()))


def uncached_prompts() -> PromptEncoder:
    """Returns SmolLM2's prompts with an empty cache."""
    template = JinjaTemplate((FILES / "chat_template.jinja").read_text("utf-8"), special_tokens={})
    return PromptEncoder(template, tokenizer())


@cache
def _model() -> ServedModel:
    return ServedModel(
        name="m",
        prompt=uncached_prompts(),
        tokenizer=tokenizer(),
        stop_ids=(END_ID,),
        sampling_defaults={},
        context_length=8192,
        syntax=TokenSyntax(families.load(families.PLAIN), tokenizer()),
    )


def model(**changes: object) -> ServedModel:
    """Returns SmolLM2 as a model named `m`, with changes."""
    return replace(_model(), **changes)  # type: ignore[arg-type]


@cache
def _short_tokenizer_json() -> bytes:
    """Returns a tokenizer of the first 1,000 tokens: the special ones, all bytes, and the commonest pairs. It loads in
    a millisecond."""
    data = loads(_tokenizer_json())
    vocabulary = {token: number for token, number in data["model"]["vocab"].items() if number < 1000}
    merges = [pair for pair in data["model"]["merges"] if pair.replace(" ", "") in vocabulary]
    data["model"] |= {"vocab": vocabulary, "merges": merges}
    return dumps(data)


def write_directory(target: Path, *, short: bool = False) -> Path:
    """Writes SmolLM2's model directory, as an operator has it on disk. With `short` the vocabulary has few tokens."""
    shutil.copytree(FILES, target, ignore=shutil.ignore_patterns("*.gz", "README.md"))
    (target / "tokenizer.json").write_bytes(_short_tokenizer_json() if short else _tokenizer_json())
    return target


def write_profile(folder: Path, endpoint: str, **members: str) -> Path:
    """Writes the profile of SmolLM2 as a model `m` behind a Triton, and its model directory. `members` replace members
    of the profile. Returns the folder of the profile."""
    profiles = folder / "profiles"
    profiles.mkdir(parents=True)
    directory = write_directory(folder / "model")
    values = {"name": "m", "directory": str(directory), "endpoint": endpoint, "engine": "triton_tokens"} | members
    (profiles / "m.toml").write_text("".join(f'{name} = "{value}"\n' for name, value in values.items()))
    return profiles


def prompt_of(ids: Sequence[int], *tools: Tool) -> TurnPrompt:
    """Returns a prompt with these ids, for a model that may call these tools."""
    encoded = EncodedPrompt([""], len(ids), ids)
    return TurnPrompt(Conversation(()), ToolSet(tools, tools), {}, len(ids), lambda _: encoded, Roles(), encoded)


def turn(*texts: str, history: list[Object] | None = None, **request: object) -> Turn:
    """Returns a turn in which the user says these texts."""
    return Turn(
        response_id=RESPONSE_ID,
        created_at=1_700_000_000,
        request=dumps({"model": "m"} | request),
        history=dumps(history or []),
        input=dumps([message("user", text) for text in texts]),
    )


def message(role: str, *texts: str) -> Object:
    """Returns a message item in its full form."""
    kind = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": kind, "text": text} for text in texts]
    return {"id": "msg_1", "type": "message", "status": "completed", "role": role, "content": parts}
