from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.talk.own_tools import OwnTools
from antiphon_core.config import SettingsError
from antiphon_core.jsons import loads

SOURCE = '''
from math import sqrt


def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


def where(city: str) -> dict[str, str]:
    return {"city": city}


def breaks() -> None:
    raise RuntimeError("no luck")


def _private(): ...
'''


@pytest.fixture
def tools(tmp_path: Path) -> OwnTools:
    (tmp_path / "tools.py").write_text(SOURCE)
    return OwnTools.of(tmp_path / "tools.py")


def test_each_function_of_the_file_is_a_tool(tools: OwnTools) -> None:
    assert [tool["name"] for tool in tools.definitions] == ["add", "where", "breaks"]
    add = tools.definitions[0]
    assert add["description"] == "Adds two numbers."
    assert add["parameters"]["required"] == ["a"]
    assert add["parameters"]["properties"]["b"] == {"default": 1, "title": "B", "type": "integer"}
    assert "description" not in tools.definitions[1]


def test_tool_results_are_text_or_json(tools: OwnTools) -> None:
    assert tools.call("add", '{"a": 2, "b": 3}') == "5"
    assert loads(tools.call("where", '{"city": "Oslo"}')) == {"city": "Oslo"}


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("add", '{"a": "many"}', "The arguments do not fit: "),
        ("add", '{"c": 1}', "The arguments do not fit: "),
        ("add", "{", "The arguments do not fit: "),
        ("breaks", "{}", "The tool failed: RuntimeError: no luck"),
        ("sqrt", "{}", "There is no tool 'sqrt'."),
    ],
)
def test_a_failed_tool_call_returns_its_error_as_text(tools: OwnTools, name: str, arguments: str, told: str) -> None:
    assert tools.call(name, arguments).startswith(told)


@pytest.mark.parametrize(("source", "why"), [(None, "must name a Python file"), ("1 / 0", "ZeroDivisionError")])
def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path, source: str | None, why: str) -> None:
    file = tmp_path / "tools.py"
    if source is not None:
        file.write_text(source)
    with pytest.raises(SettingsError, match=why):
        OwnTools.of(file)


def test_a_result_of_any_type_becomes_text(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from decimal import Decimal\nfrom pathlib import Path\n\n\n"
        "def names():\n    return {'a'}\n\n\n"
        "def price():\n    return {'path': Path('/x'), 'euros': Decimal('1.5'), 'big': 2**70}\n\n\n"
        "def thing():\n    return object\n"
    )
    tools = OwnTools.of(tmp_path / "tools.py")
    assert tools.call("names", "{}") == '["a"]'
    assert tools.call("price", "{}") == f'{{"path":"/x","euros":"1.5","big":{2**70}}}'
    assert "object" in tools.call("thing", "{}")


def test_a_result_that_cannot_be_written_is_a_failure_of_the_tool(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def raw():\n    return b'\\xff'\n")
    assert OwnTools.of(tmp_path / "tools.py").call("raw", "{}").startswith("The tool failed: ")


def test_a_coroutine_function_cannot_be_a_tool(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("async def later() -> str:\n    return 'x'\n")
    with pytest.raises(SettingsError, match="'later' cannot be a tool: it is asynchronous"):
        OwnTools.of(tmp_path / "tools.py")
