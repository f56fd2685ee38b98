from pathlib import Path
from typing import Any

import pytest

from antiphon_tokens import arguments
from antiphon_tokens.arguments import Arguments
from antiphon_tokens.engine import LoadError


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    given = {"model": '/a "b"/ü.gguf', "slots": 4, "more": {"a": [1.5, None, True]}}
    path = tmp_path / arguments.FILE
    path.write_text(arguments.to_text(given, "What this is:\n\n  and more"), "utf-8")
    assert arguments.read(path) == given
    assert path.read_text("utf-8").startswith("# What this is:\n#\n#   and more\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slots 4", ":1: expected `name: value`"),
        ("# fine\n\nmore:\n  nested: 1", ":3: the value of more must be JSON on one line"),
        ("slots: four", ":1: the value of slots must be JSON"),
        ("slots: 4\nslots: 5", ":2: slots is set twice"),
        ("a b: 4", ":1: expected"),
    ],
)
def test_line_of_another_form_is_refused_with_its_number(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / arguments.FILE
    path.write_text(text, "utf-8")
    with pytest.raises(LoadError, match=message):
        arguments.read(path)


def test_missing_file_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="none.yaml cannot be read: No such file"):
        arguments.read(tmp_path / "none.yaml")


@pytest.mark.parametrize("found", [0, -1, True, "4", 1.5, None])
def test_number_must_be_a_positive_integer(found: Any) -> None:
    with pytest.raises(LoadError, match="slots must be a positive number"):
        Arguments({"slots": found}).number("slots", 4)


@pytest.mark.parametrize("found", [["a"], {"seven": "/a"}, {"7": 7}])
def test_adapters_are_paths_by_number(found: Any) -> None:
    with pytest.raises(LoadError, match="lora_adapters must be like"):
        Arguments({"lora_adapters": found}).adapters("lora_adapters")
    assert Arguments({"lora_adapters": {"7": "/a"}}).adapters("lora_adapters") == {7: "/a"}


def test_arguments_that_nothing_takes_are_left() -> None:
    taken = Arguments({"slots": 2, "other": 1})
    assert (taken.number("slots", 4), taken.rest()) == (2, {"other": 1})
    with pytest.raises(LoadError, match="the engine e has no argument 'other'"):
        taken.require_none_left("e")
