"""A model that reasons and calls tools, with a vocabulary of bytes, and the responses to its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import TokenChunk
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support.pipelines import pipeline_of
from tests.support.served_models import model, turn
from tests.support.small_vocabulary import byte_tokenizer, ids_of

CONTROL = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
TOKENIZER = byte_tokenizer(*CONTROL)
(END_ID,) = ids_of(TOKENIZER, "<|im_end|>")
TEMPLATE = """
{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}
{{- message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
EXEC = {"type": "custom", "name": "exec"}
CALL = ("<tool_call>", '{"name": "get_weather", "arguments": {"city": "Rome"}}', "</tool_call>")


@cache
def _template() -> JinjaTemplate:
    return JinjaTemplate(TEMPLATE, special_tokens={})


def reasoning_model() -> ServedModel:
    """Returns a model of the Hermes family with a vocabulary of bytes."""
    return model(
        prompt=PromptEncoder(_template(), TOKENIZER),
        tokenizer=TOKENIZER,
        stop_ids=(END_ID,),
        syntax=TokenSyntax(families.load("hermes"), TOKENIZER),
        context_length=100_000,
    )


def play(*said: str, cuts: Sequence[int] = (), history: list[Object] | None = None, **request: Any) -> Object:
    """Returns the response to this output of the model. Its ids are split into messages at `cuts`."""
    log = log_of_play(*said, cuts=cuts, history=history, **request)
    folded = fold(log)
    assert folded == log[-1]["response"]
    return folded


def log_of_play(
    *said: str,
    cuts: Sequence[int] = (),
    history: list[Object] | None = None,
    served: ServedModel | None = None,
    **request: Any,
) -> list[Object]:
    """Returns all events of the response to this output."""
    served = served or reasoning_model()
    made = pipeline_of(served, turn("Hi", history=history, **request), controls=ALL_CONTROLS, ids=SequentialIds())
    batches, _asked = made.start()
    ids = [*ids_of(TOKENIZER, *said), END_ID]
    edges = [0, *sorted(cut % len(ids) for cut in cuts), len(ids)]
    for start, end in pairwise(edges):
        if not made.is_done and start < end:
            batches += made.receive([TokenChunk(ids[start:end])])
    batches += made.finish(completed_at=9)
    log = [event for batch in batches for event in events.decode(batch.frames)]
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    return log


def kinds(response: Object) -> list[str]:
    return [item["type"] for item in response["output"]]
