"""Chains of turns through the whole of Antiphon before llama.cpp: the engine evaluates what is new in a prompt, and has
the rest in its cache."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from tokenizers import Tokenizer

from antiphon_core.jsons import Object, dumps, loads
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.integration.local.conftest import CONTEXT_LENGTH
from tests.support.in_process import System, running
from tests.support.served_models import FILES, model
from tests.support.templated_system import source_of
from tests.support.triton import RunningTriton
from tests.support.turns import engine_on
from tests.support.volume import volume

pytestmark = pytest.mark.asyncio(loop_scope="session")

TURNS = volume(4, 10)
LAST = 1
"""The last id of an output that its length ends has not been evaluated."""
ANSWERS_BEGINNING = 8
"""At most so many ids of a prompt begin the answer (the template's `assistant` and an empty thought); the next prompt
has a user's message there."""
LOOK_UP: Object = {
    "type": "function",
    "name": "look_up",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
}


def user(text: str) -> Object:
    return {"role": "user", "content": text}


def call(number: int, word: str) -> Object:
    arguments = dumps({"word": word}).decode()
    return {"type": "function_call", "call_id": f"call_{number}", "name": "look_up", "arguments": arguments}


def result(call: Object) -> Object:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": "Next word."}


CALLS = [call(number, word) for number, word in enumerate(("apple", "banana", "misunderstanding"))]
EXAMPLES = [user("Look up all words."), *(item for each in CALLS for item in (each, result(each)))]
"""A small model calls a tool where others have done so."""


def splitting_tokenizer() -> ModelTokenizer:
    """SmolLM2's tokenizer without a tenth of its merges: it splits many words otherwise than the model does."""
    data = loads(gzip.decompress((FILES / "tokenizer.json.gz").read_bytes()))
    merges = data["model"]["merges"]
    data["model"]["merges"] = [pair for number, pair in enumerate(merges) if number < 1000 or number % 10]
    return ModelTokenizer(Tokenizer.from_str(dumps(data).decode()))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def system(server: RunningTriton) -> AsyncIterator[System]:
    """SmolLM2 with a template that shows tools, on a translator that caches no prompts, like one that has not seen the
    chain."""
    tokenizer = splitting_tokenizer()
    served = model(
        prompt=PromptEncoder(JinjaTemplate(source_of("Qwen-Qwen3-0.6B"), special_tokens={}), tokenizer, cache_bytes=0),
        tokenizer=tokenizer,
        syntax=TokenSyntax(families.load("hermes"), tokenizer),
        context_length=CONTEXT_LENGTH,
    )
    async with running((served, engine_on(server, name=MODEL_NAME))) as system:
        yield system


async def ask(system: System, before: Object | None, given: Sequence[Object], **members: Any) -> Object:
    previous = {"previous_response_id": before["id"]} if before else {}
    request = {"tools": [LOOK_UP], "temperature": 0, "max_output_tokens": 40}
    answer: Object = await system.create(**request | previous | members, input=given)
    return answer


def evaluated_again(before: Object, after: Object) -> int:
    """How many of the ids that one turn read and wrote are evaluated again in a turn that continues it."""
    return int(before["usage"]["total_tokens"] - after["usage"]["input_tokens_details"]["cached_tokens"])


async def test_each_turn_of_a_tool_loop_evaluates_what_is_new(system: System) -> None:
    before = await ask(system, None, EXAMPLES)
    for _ in range(TURNS - 1):
        (made,) = before["output"]
        assert made["type"] == "function_call"
        after = await ask(system, before, [result(made)])
        assert evaluated_again(before, after) <= LAST
        before = after


async def test_each_branch_of_a_fork_evaluates_what_is_new(system: System) -> None:
    root = await ask(system, None, [user("Tell me a story of an impossible misunderstanding.")])
    for text in "Why?", "And then?":
        branch = await ask(system, root, [user(text)], max_output_tokens=16)
        assert evaluated_again(root, branch) <= LAST
        going_on = await ask(system, branch, [user("Go on.")], max_output_tokens=4)
        assert evaluated_again(branch, going_on) <= LAST


async def test_prewarm_leaves_what_is_new_to_the_next_turn(system: System) -> None:
    text = f"A prompt that is read before its user has finished the question. {'Long ' * 80}"
    warm = await ask(system, None, [user(text)], prompt_cache_options={"prewarm": True})
    assert (warm["output"], warm["usage"]["output_tokens"]) == ([], 0)
    assert warm["usage"]["input_tokens_details"]["cache_write_tokens"] > 80
    after = await ask(system, warm, [user("Go on.")], max_output_tokens=4)
    assert evaluated_again(warm, after) <= ANSWERS_BEGINNING
