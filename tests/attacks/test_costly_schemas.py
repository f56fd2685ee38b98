"""Tools whose schemas would take seconds to compile, during which nothing else would run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Turn
from antiphon_translator.engines.scripted import ALL_CONTROLS, Emit, ScriptedEngine
from antiphon_translator.schemas import schemas
from antiphon_translator.schemas.schema_outline import Outline
from antiphon_translator.service import TranslatorService
from tests.support.in_process import translator_of
from tests.support.served_models import END_ID, model, turn
from tests.support.waiting import until

TOOLS = 60
PATTERNS = 32


class Compiled:
    """Counts compiled schemas, with a gate before each compilation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.is_open = threading.Event()
        self.is_open.set()
        compiled = schemas.compile_validator

        def counted(outline: Outline) -> Any:
            self.count += 1
            self.is_open.wait()
            return compiled(outline)

        monkeypatch.setattr(schemas, "compile_validator", counted)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Compiled:
    return Compiled(monkeypatch)


def tool(number: int, properties: Object, *, strict: bool = True) -> Object:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "description": f"test_costly_schemas {number}",
    }
    return {"type": "function", "name": f"f{number}", "parameters": schema, "strict": strict}


def patterned(number: int, *patterns: str) -> Object:
    return tool(number, {f"p{at}": {"type": "string", "pattern": each} for at, each in enumerate(patterns)})


def calling(*tools: Object) -> Turn:
    return turn("Hi", tools=list(tools), tool_choice="none")


def serving() -> TranslatorService:
    return translator_of((model(), ScriptedEngine([Emit([END_ID])], controls=ALL_CONTROLS | {"guide"})))


async def refused(*tools: Object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        await serving().generate(calling(*tools), lambda _: None)
    return caught.value


async def test_patterns_above_the_total_limit_are_rejected_before_compilation(compiled: Compiled) -> None:
    tools = [patterned(number, *(f".{{{990 + at % 9}}}{at}" for at in range(PATTERNS))) for number in range(TOOLS)]
    error = await refused(*tools)
    assert error.code == "invalid_function_parameters"
    assert "to compile" in error.message
    assert compiled.count == 0


async def test_many_small_tools_above_the_total_limit_are_rejected(compiled: Compiled) -> None:
    error = await refused(*(patterned(number, ".{999}") for number in range(TOOLS)))
    assert error.field is not None
    assert 0 < compiled.count < 10


async def test_a_pattern_of_shorthands_is_refused_before_it_is_compiled(compiled: Compiled) -> None:
    await refused(patterned(0, "\\s" * 400))
    assert compiled.count == 0


async def test_nested_schemas_above_the_total_limit_are_rejected() -> None:
    properties: Object = {f"p{at}": {"type": "string"} for at in range(1_000)}
    error = await refused(*(tool(number, properties, strict=False) for number in range(TOOLS)))
    assert error.field is not None
    assert "in each other" in error.message
    assert int(error.field.removeprefix("tools[").split("]")[0]) < TOOLS // 2


async def test_a_hundred_ordinary_tools_are_accepted_and_compiled_once(compiled: Compiled) -> None:
    tools = [patterned(number, r"^\d{4}-\d{2}-\d{2}$", r"^[\w.+-]+@[\w-]+\.[\w.]+$") for number in range(100, 200)]
    for _ in range(2):
        await serving().generate(calling(*tools), lambda _: None)
    assert compiled.count == 100


async def test_compilation_stops_after_its_caller_is_cancelled(compiled: Compiled) -> None:
    compiled.is_open.clear()
    tools = [patterned(number, "a{900}") for number in range(200, 260)]
    leaving = asyncio.ensure_future(serving().generate(calling(*tools), lambda _: None))
    await until(lambda: compiled.count == 1, "the first schema is compiled")
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    compiled.is_open.set()
    await serving().generate(calling(patterned(300, "b")), lambda _: None)  # waits until the compiling thread is free
    assert compiled.count == 2
