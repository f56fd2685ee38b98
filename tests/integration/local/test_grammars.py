"""No guide that a client can send ends the server or stops other requests."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

import antiphon_tokens
from antiphon_core.jsons import Object, dumps
from antiphon_local_triton.server_venv import read_layout
from antiphon_translator.schemas import normal_form, schemas
from antiphon_translator.schemas.schema_outline import InvalidSchema
from tests import support
from tests.integration.local.conftest import END_ID, Chat
from tests.support.json_schemas import schema_of
from tests.support.token_client import TokenClient, TritonFault
from tests.support.triton import RunningTriton, server_venv
from tests.support.volume import volume

SCHEMAS = volume(12, 1_000)
VICTIM_TOKENS = volume(120, 300)
DRIVER = Path(support.__file__).with_name("triton_models") / "grammar_driver.py"
BOUNDS = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 5, "maximum": 1}}, "required": ["x"]}
HOSTILE = [
    ("json_schema", json.dumps(BOUNDS)),
    ("json_schema", '{"properties": {"x": true}}'),
    ("json_schema", '{"$ref": "#"}'),
    ("json_schema", "[" * 100_000),
    ("json_schema", '{"items":' * 5_000 + "{}" + "}" * 5_000),
    ("json_schema", '{"type": "string", "maxLength": 100000}'),
    ("ebnf_grammar", "root ::= [5-1]"),
    ("ebnf_grammar", 'root ::= "a" ("b" | [z-a])'),
    ("ebnf_grammar", 'root ::= root "a"'),
    ("ebnf_grammar", "root ::= (" * 500),
    ("ebnf_grammar", "root ::= " + " | ".join(f'"a{number}"' for number in range(20_000))),
    ("regex", "[5-1]"),
]


@pytest.mark.asyncio(loop_scope="session")
async def test_hostile_guides_are_rejected_while_another_request_runs_on(
    client: TokenClient, chat: Chat, server: RunningTriton
) -> None:
    pid, stubs, prompt = server.pid, server.stub_pids(), chat.prompt("Count.")
    victim = asyncio.create_task(client.generate(prompt, VICTIM_TOKENS))
    for guide_type, guide in HOSTILE:
        inputs = {"guided_decoding_guide_type": guide_type, "guided_decoding_guide": guide}
        named = "more than 1000 alternatives" if guide.count("|") > 1_000 else "guided_decoding_guide"
        with pytest.raises(TritonFault, match=named):
            await client.generate(prompt, 20, end_id=END_ID, **inputs)
    assert len((await victim).ids) == VICTIM_TOKENS
    assert (server.pid, server.stub_pids()) == (pid, stubs)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("banned", ["end", "words"])
async def test_bans_do_not_drive_a_guided_answer_into_a_dead_end(
    client: TokenClient, chat: Chat, server: RunningTriton, banned: str
) -> None:
    stubs = server.stub_pids()
    guided = {"guided_decoding_guide_type": "ebnf_grammar", "guided_decoding_guide": 'root ::= "7"'}
    bans: dict[str, Any] = {"min_tokens": 9} if banned == "end" else {"bad_words_list": [chat.encode("7")]}
    answer = await client.generate(chat.prompt("Count."), 9, end_id=END_ID, **guided, **bans)
    assert chat.decode(answer.ids) == "7"
    assert server.stub_pids() == stubs


def test_grammars_of_random_schemas_never_end_the_engine() -> None:
    layout = read_layout(server_venv())
    code = Path(antiphon_tokens.__file__).parents[1]
    guides = [dumps(["json_schema", dumps(normal).decode()]) for normal in islice(_guidable(), SCHEMAS)]
    ran = subprocess.run(
        [layout.venv / "bin" / "python3", DRIVER, code, layout.packaged_gguf],
        input=b"\n".join(guides) + b"\n",
        stdout=subprocess.PIPE,
        check=False,
    )
    results = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (ran.returncode, len(results)) == (0, SCHEMAS), guides[len(results)]
    made = sum("grammar" in each for each in results)
    assert made > 0.8 * SCHEMAS, [each["error"] for each in results if "error" in each][:10]


def _guidable() -> Iterator[Object]:
    """The normal forms of random schemas that a client may send."""
    for seed in count():
        try:
            outline = schemas.read_guidable(schema_of(Random(seed)))
        except InvalidSchema:
            continue
        yield normal_form.of(outline)
