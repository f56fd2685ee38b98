"""The behaviour of the token-level model on a real Triton, on any engine. An engine's test module subclasses the suite
and provides the fixture `server`, which serves the small model as `tensorrt_llm`, with CONTEXT_LENGTH tokens."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import cache
from itertools import count
from typing import Any

import pytest
import pytest_asyncio
from tokenizers import Tokenizer

from tests.support.served_models import END_ID, FILES
from tests.support.token_client import Answer, TokenClient, TritonFault
from tests.support.triton import RunningTriton
from tests.support.waiting import least

FRANCE, PARIS = "What is the capital of France?", "The capital of France is Paris."
STREAMS = 64
CONTEXT_LENGTH = 256
FACTS = ("cached_tokens", "queue_ns", "prefill_ns")
_NUMBERS = count()


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_buffer(gzip.decompress((FILES / "tokenizer.json.gz").read_bytes()))


def ids_of(text: str) -> list[int]:
    ids: list[int] = tokenizer().encode(text, add_special_tokens=False).ids
    return ids


def text_of(ids: list[int]) -> str:
    return str(tokenizer().decode(ids, skip_special_tokens=False))


def asked(text: str) -> list[int]:
    """The prompt of a question."""
    return ids_of(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")


class TokensContract:
    """Everything that clients rely on, whatever engine is behind the model."""

    @pytest_asyncio.fixture(loop_scope="module")
    async def client(self, server: RunningTriton) -> AsyncIterator[TokenClient]:
        client = TokenClient(server.grpc_address)
        yield client
        await client.close()

    async def test_answer_ends_before_the_end_id_with_its_reason(self, client: TokenClient) -> None:
        answer = await client.generate(asked(FRANCE), 50, end_id=END_ID)
        assert (text_of(answer.ids), answer.finish_reason, answer.final_flag) == (PARIS, "stop", True)

    async def test_prompt_is_cut_to_its_length(self, client: TokenClient) -> None:
        prompt = asked(FRANCE)
        answer = await client.generate([*prompt, 7, 7, 7], 50, end_id=END_ID, input_lengths=len(prompt))
        assert text_of(answer.ids) == PARIS

    async def test_without_an_end_id_the_answer_goes_on_to_its_length(self, client: TokenClient) -> None:
        answer = await client.generate(asked(FRANCE), 12)
        assert (len(answer.ids), answer.finish_reason, END_ID in answer.ids) == (12, "length", True)

    async def test_more_tokens_than_the_context_holds_are_cut(self, client: TokenClient) -> None:
        answer = await client.generate([504] * (CONTEXT_LENGTH - 6), 500)
        assert (len(answer.ids), answer.finish_reason) == (6, "length")

    @pytest.mark.parametrize("stop", [" capital", " capital of"])
    async def test_stop_word_ends_the_answer_and_its_ids_stay(self, client: TokenClient, stop: str) -> None:
        words = [ids_of("xyz"), ids_of(stop)]
        answer = await client.generate(asked(FRANCE), 50, end_id=END_ID, stop_words_list=words)
        assert (text_of(answer.ids), answer.finish_reason) == (f"The{stop}", "stop")

    async def test_without_streaming_there_is_one_response(self, client: TokenClient) -> None:
        prompt = asked(FRANCE)
        whole = await client.generate(prompt, 50, end_id=END_ID, streaming=False)
        bare = await client.generate(prompt, 50, end_id=END_ID, streaming=False, exclude_input_in_output=True)
        assert whole.per_response == [[*prompt, *bare.ids]]
        assert text_of(bare.ids) == PARIS

    async def test_log_probabilities_belong_to_the_ids(self, client: TokenClient) -> None:
        answer = await client.generate(asked(FRANCE), 5, return_log_probs=True, top_log_probs=2)
        chosen = [value for response in answer.outputs["output_log_probs"] for value in response]
        likeliest = [int(number) for response in answer.outputs["top_log_prob_ids"] for number in response]
        assert likeliest[::2] == answer.ids, "the likeliest ids are chosen"
        assert (len(chosen), len(likeliest)) == (5, 10)
        assert answer.outputs["cum_log_probs"][-1][0] == pytest.approx(sum(chosen), abs=1e-3)

    async def test_guided_answer_follows_its_guide(self, client: TokenClient) -> None:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        guide = {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": json.dumps(schema)}
        answer = await client.generate(asked(FRANCE), 60, end_id=END_ID, **guide)
        assert isinstance(json.loads(text_of(answer.ids))["city"], str)

    @pytest.mark.parametrize(
        ("prompt", "tokens_max", "inputs", "message"),
        [
            ([1] * CONTEXT_LENGTH, 5, {}, "exceeds maximum input length|should not exceed"),
            ([], 5, {}, "input_ids is empty"),
            ([1], 0, {}, "request_output_len must be positive"),
            ([1], 5, {"beam_width": 2}, "beam_width"),
            ([1], 5, {"guided_decoding_guide_type": "poem"}, "unknown guided_decoding_guide_type"),
            ([1], 5, {"lookahead": 1}, "unexpected inference input"),
        ],
    )
    async def test_request_that_cannot_be_served_is_answered_with_an_error(
        self, client: TokenClient, prompt: list[int], tokens_max: int, inputs: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(TritonFault, match=message):
            await client.generate(prompt, tokens_max, **inputs)

    async def test_second_turn_has_cached_tokens_and_each_its_times(self, client: TokenClient) -> None:
        prompt = asked(f"{FRANCE} {'Think well. ' * 40}")
        answers = [
            await client.generate(prompt, 2, cache_salt=f"turns {next(_NUMBERS)}", return_perf_metrics=True),
            *[await client.generate(prompt, 2, cache_salt="mine", return_perf_metrics=True) for _ in range(2)],
        ]
        cached = [answer.outputs["cached_tokens"][-1][0] for answer in answers]
        assert cached[:2] == [0, 0]
        assert 0 < cached[2] < len(prompt)
        assert all(answer.outputs[name][-1][0] >= 0 for answer in answers for name in FACTS)

    async def test_salts_share_nothing(self, client: TokenClient) -> None:
        prompt, cached = asked(f"{FRANCE} {'Think again. ' * 40}"), []
        for salt in ("a", "b", "a"):
            answer = await client.generate(prompt, 2, cache_salt=salt, return_perf_metrics=True)
            cached.append(answer.outputs["cached_tokens"][-1][0])
        assert cached[:2] == [0, 0]
        assert cached[2] > 0

    async def test_cancellation_ends_the_generation_within_a_token(
        self, client: TokenClient, server: RunningTriton
    ) -> None:
        async def tokens_too_many() -> int:
            request_id = f"cancel-me-{next(_NUMBERS)}"
            answer = await client.cancelled_after(5, asked("Tell me a story."), 800, id=request_id)
            return await server.tokens_when_cancelled(request_id) - len(answer.ids)

        # One token may be in flight to the client, one in progress, and one sampled while the cancellation travels.
        assert 0 <= await least(tokens_too_many, most=3) <= 3

    async def test_stop_request_ends_the_request_of_its_id(self, client: TokenClient) -> None:
        answer, request_id = Answer(), f"stop-me-{next(_NUMBERS)}"
        async with aclosing(client.responses(asked("Tell me a story."), 800, id=request_id)) as responses:
            answer.add(await anext(responses))
            await client.generate([1], 1, id=request_id, stop=True)
            async for response in responses:
                answer.add(response)
        assert 0 < len(answer.ids) < 800
        assert (answer.final_flag, answer.finish_reason) == (True, "cancelled")

    async def test_many_streams_at_once_get_their_own_answers(self, client: TokenClient) -> None:
        answers = await asyncio.gather(
            *(client.generate(asked(FRANCE), 1 + number % 3, end_id=END_ID) for number in range(STREAMS))
        )
        whole = ids_of(PARIS)
        assert [answer.ids for answer in answers] == [whole[: 1 + number % 3] for number in range(STREAMS)]

    async def test_client_that_stops_reading_delays_no_other(self, client: TokenClient) -> None:
        async with aclosing(client.responses(asked("Tell me a story."), 300)) as unread:
            await anext(unread)
            answer = await client.generate(asked(FRANCE), 50, end_id=END_ID)
        assert text_of(answer.ids) == PARIS
