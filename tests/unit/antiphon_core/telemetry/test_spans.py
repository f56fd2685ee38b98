from __future__ import annotations

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, rpc_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes, server_attributes, url_attributes

from antiphon_core.telemetry import spans

MODULES = (gen_ai_attributes, rpc_attributes, error_attributes, http_attributes, server_attributes, url_attributes)


def test_attributes_are_those_of_the_pinned_conventions() -> None:
    conventions = {value for module in MODULES for value in vars(module).values() if isinstance(value, str)}
    assert {name for name in spans.ATTRIBUTES if not name.startswith("antiphon.")} <= conventions


def test_no_attribute_holds_content() -> None:
    content = {
        gen_ai_attributes.GEN_AI_INPUT_MESSAGES,
        gen_ai_attributes.GEN_AI_OUTPUT_MESSAGES,
        gen_ai_attributes.GEN_AI_SYSTEM_INSTRUCTIONS,
    }
    assert not spans.ATTRIBUTES & content


def test_the_operation_of_a_model_is_that_of_the_conventions() -> None:
    assert gen_ai_attributes.GenAiOperationNameValues.CHAT.value == spans.CHAT
