"""The packaged model on the real Triton: llama.cpp keeps the promises of the token-level signature."""

import asyncio
import json
import re

import pytest

from antiphon_core.request.tools import GrammarInput
from antiphon_translator.schemas import custom_formats
from tests.integration.local.conftest import CONTEXT_LENGTH, END_ID, Chat
from tests.support.token_client import TokenClient, TritonFault

pytestmark = pytest.mark.asyncio(loop_scope="session")

FRANCE, PARIS = "What is the capital of France?", "The capital of France is Paris."
EMOJI = "😀日本 👩‍👩‍👧語"
ONLY_EMOJI = {"guided_decoding_guide_type": "ebnf_grammar", "guided_decoding_guide": f'root ::= "{EMOJI}"'}
DATE = GrammarInput(type="grammar", syntax="regex", definition=r"(on )?[0-9]{4}-\d\d \(or [a-z]+\)|[A-Z]{12}")


async def test_known_questions_get_their_known_answers(client: TokenClient, chat: Chat) -> None:
    first = await client.generate(chat.prompt(FRANCE), 50, end_id=END_ID)
    assert chat.decode(first.ids) == PARIS
    second = await client.generate(chat.prompt(FRANCE, PARIS, "And of Italy?"), 50, end_id=END_ID)
    assert chat.decode(second.ids) == "The capital of Italy is Rome."


async def test_each_new_id_is_streamed_in_its_own_response(client: TokenClient, chat: Chat) -> None:
    prompt = chat.prompt(FRANCE)
    answer = await client.generate(
        prompt, 50, end_id=END_ID, return_num_input_tokens=True, return_num_output_tokens=True
    )
    *tokens, last = answer.per_response
    assert [len(ids) for ids in tokens] == [1] * len(answer.ids)
    assert last == [], "the end id is not part of the output"
    assert answer.final_flag
    assert answer.outputs["num_input_tokens"] == [[len(prompt)]] * len(answer.per_response)
    assert answer.outputs["num_output_tokens"] == answer.outputs["sequence_length"]
    assert sum(count for [count] in answer.outputs["num_output_tokens"]) == len(answer.ids)


async def test_a_bad_word_is_never_written(client: TokenClient, chat: Chat) -> None:
    [paris], capital_of = chat.encode(" Paris"), chat.encode(" capital of")
    answer = await client.generate(chat.prompt(FRANCE), 30, end_id=END_ID, bad_words_list=[[paris], capital_of])
    assert paris not in answer.ids
    assert capital_of not in [answer.ids[at : at + len(capital_of)] for at in range(len(answer.ids))]


async def test_min_tokens_holds_the_end_back(client: TokenClient, chat: Chat) -> None:
    answer = await client.generate(chat.prompt(FRANCE), 30, end_id=END_ID, min_tokens=20)
    assert len(answer.ids) >= 20
    assert END_ID not in answer.ids


async def test_the_same_seed_gives_the_same_ids(client: TokenClient, chat: Chat) -> None:
    prompt = chat.prompt("Tell me a story.")
    await client.generate(prompt, 1)  # the later requests have the prompt in the cache
    answers = [
        await client.generate(prompt, 24, temperature=1.5, runtime_top_p=0.98, runtime_top_k=50, seed=seed)
        for seed in (7, 7, 8)
    ]
    assert answers[0].ids == answers[1].ids
    assert answers[0].ids != answers[2].ids


async def test_penalties_change_the_choice(client: TokenClient, chat: Chat) -> None:
    prompt = chat.prompt("Say the word yes again and again.")
    plain = await client.generate(prompt, 40)
    penalised = await client.generate(prompt, 40, repetition_penalty=1.8, presence_penalty=1.0, frequency_penalty=1.0)
    assert len(set(penalised.ids)) > len(set(plain.ids))


async def test_ids_are_exact_inside_characters_of_several_tokens(client: TokenClient, chat: Chat) -> None:
    answer = await client.generate(chat.prompt("Smile."), 60, end_id=END_ID, **ONLY_EMOJI)
    assert chat.decode(answer.ids) == EMOJI
    assert len(answer.ids) > len(EMOJI)
    assert all(len(ids) == 1 for ids in answer.per_response[:-1])
    assert sum(count for [count] in answer.outputs["sequence_length"]) == len(answer.ids)


async def test_a_length_limit_inside_a_character_cuts_between_ids(client: TokenClient, chat: Chat) -> None:
    whole = await client.generate(chat.prompt("Smile."), 60, end_id=END_ID, **ONLY_EMOJI)
    for length in (1, 2, 4, 7):
        cut = await client.generate(chat.prompt("Smile."), length, end_id=END_ID, **ONLY_EMOJI)
        assert cut.ids == whole.ids[:length]


@pytest.mark.parametrize(
    ("guide_type", "guide", "check"),
    [
        (
            "json_schema",
            json.dumps({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
            lambda text: isinstance(json.loads(text)["city"], str),
        ),
        (
            "json_schema",  # the schema of a call of a custom tool with a grammar
            json.dumps(custom_formats.input_schema(DATE)),
            lambda text: re.fullmatch(DATE.definition, json.loads(text)["input"]) is not None,
        ),
        (
            "json_schema",  # `{}` is any value, not only an object: the model answers with a text
            json.dumps({"type": "object", "properties": {"capital": {}}, "required": ["capital"]}),
            lambda text: isinstance(json.loads(text)["capital"], str),
        ),
        ("regex", "(Paris|Rome), [0-9]{4}", lambda text: text[:5] in ("Paris", "Rome,") and text[-4:].isdigit()),
        ("ebnf_grammar", 'root ::= "yes" | "no"', lambda text: text in ("yes", "no")),
    ],
)
async def test_guided_output_follows_its_guide(
    client: TokenClient, chat: Chat, guide_type: str, guide: str, check: object
) -> None:
    answer = await client.generate(
        chat.prompt(FRANCE), 60, end_id=END_ID, guided_decoding_guide_type=guide_type, guided_decoding_guide=guide
    )
    assert callable(check)
    assert check(chat.decode(answer.ids).strip()), chat.decode(answer.ids)


@pytest.mark.parametrize(
    ("prompt", "tokens_max", "inputs", "message"),
    [
        ([1] * CONTEXT_LENGTH, 5, {}, "exceeds maximum input length"),
        ([49_152], 5, {}, "outside the vocabulary"),
        ([-1], 5, {}, "outside the vocabulary"),
        ([], 5, {}, "input_ids is empty"),
        ([1], 0, {}, "request_output_len must be positive"),
        ([1], 5, {"beam_width": 2}, "beam_width"),
        ([1], 5, {"temperature": -1.0}, "temperature"),
        ([1], 5, {"guided_decoding_guide_type": "poem"}, "unknown guided_decoding_guide_type"),
        ([1], 5, {"guided_decoding_guide_type": "ebnf_grammar", "guided_decoding_guide": "root ::= ("}, "not a valid"),
        ([1], 5, {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": "{"}, "not JSON"),
        ([1], 5, {"lora_task_id": 1}, "lora_task_id"),
    ],
)
async def test_an_invalid_request_is_answered_with_a_triton_error(
    client: TokenClient, prompt: list[int], tokens_max: int, inputs: dict[str, float | str], message: str
) -> None:
    with pytest.raises(TritonFault, match=message):
        await client.generate(prompt, tokens_max, **inputs)


async def test_concurrent_streams_do_not_disturb_each_other(client: TokenClient, chat: Chat) -> None:
    questions = [FRANCE, "What is the capital of Italy?", "What is the capital of Spain?"] * 3
    alone = [await client.generate(chat.prompt(question), 20, end_id=END_ID) for question in questions[:3]]
    together = await asyncio.gather(
        *(client.generate(chat.prompt(question), 20, end_id=END_ID) for question in questions)
    )
    assert [answer.ids for answer in together] == [answer.ids for answer in alone * 3]
