from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, loads
from antiphon_core.request.tools import CustomTool
from antiphon_translator.generation import Guide, GuideKind
from antiphon_translator.parsing import families
from antiphon_translator.prompt.declarations import Declaration
from antiphon_translator.prompt.tools import Tool, ToolSet, offered_tools
from antiphon_translator.schemas import schemas
from antiphon_translator.turn import forced_calls

SCHEMA: Object = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = Tool("weather", "weather", parameters=SCHEMA)
LOOSE = Tool("loose", "loose", strict=False, parameters={"odd": True})


def force(family: str, *tools: Tool, guides: bool = True, tail: str = "") -> forced_calls.ForcedCall:
    return forced_calls.of(families.load(family), ToolSet(tools, tools, requires_call=True), tail, guides=guides)


def schema_of(guide: Guide | None) -> Object:
    assert guide is not None
    assert guide.kind is GuideKind.JSON_SCHEMA
    schema: Object = loads(guide.text)
    return schema


def test_forced_call_of_one_tool_begins_at_its_arguments_with_their_schema() -> None:
    forced = force("hermes", WEATHER)
    assert forced.beginning == '<tool_call>\n{"name": "weather", "arguments": '
    assert schema_of(forced.guide) == SCHEMA


def test_forced_call_of_several_tools_is_guided_by_all_their_schemas() -> None:
    forced = force("hermes", WEATHER, LOOSE)
    assert forced.beginning == "<tool_call>\n"
    weather, loose = schema_of(forced.guide)["anyOf"]
    assert (weather["properties"]["name"], weather["properties"]["arguments"]) == ({"const": "weather"}, SCHEMA)
    assert (loose["properties"]["name"], loose["properties"]["arguments"]) == ({"const": "loose"}, {"type": "object"})


def test_guide_of_an_open_schema_requires_an_object() -> None:
    assert schema_of(force("mistral", Tool("any", "any", parameters={})).guide) == {"type": "object"}


def test_forced_call_of_a_tool_without_strict_is_guided_as_any_json() -> None:
    assert force("mistral", LOOSE).guide == Guide(GuideKind.JSON)


@pytest.mark.parametrize("family", ["qwen_coder", "glm", "deepseek_v32", "gemma4"])
def test_forced_call_of_a_family_without_json_arguments_has_no_guide(family: str) -> None:
    forced = force(family, WEATHER)
    assert "weather" in forced.beginning
    assert forced.guide is None


def test_forced_call_for_an_engine_without_guides_has_only_a_beginning() -> None:
    assert force("hermes", WEATHER, guides=False) == forced_calls.ForcedCall(
        '<tool_call>\n{"name": "weather", "arguments": '
    )
    assert force("hermes", WEATHER, LOOSE, guides=False).beginning == '<tool_call>\n{"name": "'


def test_forced_call_closes_reasoning_that_the_prompt_opened() -> None:
    assert force("hermes", WEATHER, LOOSE, tail="<think>\n").beginning == "\n</think>\n\n<tool_call>\n"


def test_family_without_forced_calls_has_no_beginning() -> None:
    assert force("plain", WEATHER) == forced_calls.ForcedCall()


@pytest.mark.parametrize("name", families.names())
def test_family_with_forced_json_begins_its_calls(name: str) -> None:
    family = families.load(name)
    assert family.forced or not (family.forced_json or family.forced_object)


def test_schema_that_cannot_guide_is_replaced_by_any_json() -> None:
    odd = Tool("odd", "odd", parameters={"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}})
    assert force("mistral", odd).guide == Guide(GuideKind.JSON)
    _, odd_call = schema_of(force("hermes", WEATHER, odd).guide)["anyOf"]
    assert odd_call["properties"]["arguments"] == {"type": "object"}


NODE: Object = {"type": "object", "properties": {"next": {"$ref": "#"}, "of": {"$ref": "#/$defs/Kind"}}}
KINDS: Object = {"$id": "https://a.example/n", "$defs": {"Kind": {"enum": ["a", {"$ref": "#"}]}}}


def test_references_of_each_tool_lead_to_its_own_definitions() -> None:
    guide = schema_of(force("hermes", *(Tool(each, each, parameters=NODE | KINDS) for each in "ab"), WEATHER).guide)
    schemas.read_guidable(guide)
    first, second, weather = (call["properties"]["arguments"] for call in guide["anyOf"])
    assert (first, second, weather) == ({"$ref": "#/$defs/arguments_0"}, {"$ref": "#/$defs/arguments_1"}, SCHEMA)
    moved = guide["$defs"]["arguments_1"]
    assert [moved["properties"][name]["$ref"] for name in ("next", "of")] == [
        "#/$defs/arguments_1/$defs/schema",
        "#/$defs/arguments_1/$defs/Kind",
    ]
    assert moved["$defs"]["schema"]["properties"] == moved["properties"]
    assert (moved["$defs"]["Kind"], "$id" in moved) == ({"enum": ["a", {"$ref": "#"}]}, False)


def custom(name: str, definition: str, syntax: str = "regex") -> Tool:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    declared = CustomTool.model_validate({"type": "custom", "name": name, "format": form})
    (tool,) = offered_tools([Declaration(declared, "tools[0]")], None).shown
    return tool


def require(family: str, *tools: Tool, guides: bool = True) -> None:
    forced_calls.require_grammars(ToolSet(tools, tools, requires_call=True), force(family, *tools, guides=guides))


def test_forced_custom_tool_is_guided_by_its_regular_expression() -> None:
    tool = custom("date", r"\d{4}")
    require("hermes", tool)
    require("hermes", tool, WEATHER)
    assert schema_of(force("hermes", tool).guide)["properties"]["input"]["pattern"] == "^([0-9]{4})$"


@pytest.mark.parametrize(
    ("family", "tools", "guides"),
    [
        ("hermes", [custom("patch", "start: A", "lark")], True),
        ("hermes", [WEATHER, custom("patch", "start: A", "lark")], True),
        ("hermes", [custom("any", ".*")], True),
        ("hermes", [custom("long", "a" * 2_000)], True),
        ("hermes", [custom("date", "a+")], False),
        ("qwen_coder", [custom("date", "a+")], True),
    ],
)
def test_forced_call_that_cannot_be_guided_is_rejected(family: str, tools: list[Tool], guides: bool) -> None:
    with pytest.raises(InvalidRequest) as caught:
        require(family, *tools, guides=guides)
    assert (caught.value.field, caught.value.code) == ("tool_choice", "unsupported_value")
