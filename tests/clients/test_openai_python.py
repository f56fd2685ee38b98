"""The official OpenAI SDK for Python, unmodified, against the running system."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import DefaultHttpxClient, OpenAI

from tests.support.system import System

QUESTION = "What is the capital of France?"


class LongTimeoutClient(DefaultHttpxClient):
    """Retries when the edge answers 503, because the store may be slow on a busy machine."""

    def send(self, *args: Any, **options: Any) -> Any:
        while (answer := super().send(*args, **options)).status_code == 503:
            answer.close()
            time.sleep(0.1)
        return answer


@pytest.fixture
def client(system: System) -> Iterator[OpenAI]:
    with OpenAI(base_url=system.base_url, api_key="none", max_retries=0, http_client=LongTimeoutClient()) as client:
        yield client


def test_create_returns_text_usage_and_request_id(client: OpenAI, system: System) -> None:
    response = client.responses.create(model=system.model, input=QUESTION, temperature=0)
    assert response.status == "completed"
    assert response.output_text == "The capital of France is Paris."
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response._request_id is not None
    assert response._request_id.startswith("req_")


def test_stream_events_are_numbered_and_in_order(client: OpenAI, system: System) -> None:
    events = list(client.responses.create(model=system.model, input=QUESTION, temperature=0, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "The capital of France is Paris."
    assert len(deltas) > 3
    assert [event.type for event in events[:4]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert [event.type for event in events[-4:]] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_the_stream_helper_returns_the_final_response(client: OpenAI, system: System) -> None:
    with client.responses.stream(model=system.model, input=QUESTION, temperature=0) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[-1] == "response.completed"
    assert final.output_text == "The capital of France is Paris."


def test_a_response_is_retrieved_with_its_input_items_and_deleted(client: OpenAI, system: System) -> None:
    made = client.responses.create(
        model=system.model,
        input=[
            {"role": "system", "content": "Answer in one sentence."},
            {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        ],
        temperature=0,
        max_output_tokens=16,
    )
    assert client.responses.retrieve(made.id).model_dump() == made.model_dump()
    items = list(client.responses.input_items.list(made.id, limit=1, order="asc"))
    assert [getattr(item, "role", None) for item in items] == ["system", "user"]
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.retrieve(made.id)
    assert made.id in caught.value.message


def test_previous_response_id_continues_the_chain(client: OpenAI, system: System) -> None:
    first = client.responses.create(model=system.model, input=QUESTION, temperature=0)
    second = client.responses.create(
        model=system.model, input="And of Italy?", temperature=0, previous_response_id=first.id
    )
    assert second.output_text == "The capital of Italy is Rome."
    assert second.previous_response_id == first.id


def test_a_response_at_max_output_tokens_is_incomplete(client: OpenAI, system: System) -> None:
    response = client.responses.create(model=system.model, input="Tell a long story.", max_output_tokens=5)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage is not None
    assert response.usage.output_tokens == 5


def test_requested_log_probabilities_are_in_deltas_and_output(client: OpenAI, system: System) -> None:
    stream = client.responses.create(
        model=system.model, input=QUESTION, temperature=0, include=["message.output_text.logprobs"], stream=True
    )
    deltas: list[tuple[str, float]] = []
    for event in stream:
        if event.type == "response.output_text.delta":
            assert "".join(each.token for each in event.logprobs) == event.delta
            deltas += [(each.token, each.logprob) for each in event.logprobs]
        if event.type == "response.completed":
            (message,) = event.response.output
            assert message.type == "message"
            (part,) = message.content
            assert part.type == "output_text"
            assert part.logprobs is not None
            assert [(each.token, each.logprob) for each in part.logprobs] == deltas
            assert "".join(token for token, _ in deltas) == part.text == "The capital of France is Paris."
            assert client.responses.retrieve(event.response.id).output == event.response.output


def test_top_logprobs_begin_with_the_chosen_token(client: OpenAI, system: System) -> None:
    response = client.responses.create(
        model=system.model, input=QUESTION, temperature=0, include=["message.output_text.logprobs"], top_logprobs=2
    )
    (message,) = response.output
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    assert part.logprobs
    for each in part.logprobs:
        assert each.top_logprobs[0].token == each.token
        assert len(each.top_logprobs) == 2


def test_models_are_listed_and_retrieved(client: OpenAI, system: System) -> None:
    assert [model.id for model in client.models.list()] == [system.model]
    assert client.models.retrieve(system.model).id == system.model


def test_errors_are_the_sdks_own_classes(client: OpenAI, system: System) -> None:
    with pytest.raises(openai.NotFoundError) as unknown_model:
        client.responses.create(model="gpt-9", input="hi")
    assert unknown_model.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as unknown_previous:
        client.responses.create(model=system.model, input="hi", previous_response_id="resp_" + "0" * 48)
    assert unknown_previous.value.code == "previous_response_not_found"
    with pytest.raises(openai.BadRequestError) as wrong_type:
        client.responses.create(model=system.model, input="hi", temperature=7)
    assert (wrong_type.value.code, wrong_type.value.param) == ("decimal_above_max_value", "temperature")
