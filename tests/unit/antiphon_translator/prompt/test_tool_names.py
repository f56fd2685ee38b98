from __future__ import annotations

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.prompt.tool_names import shown_name, shown_names


def test_name_has_its_namespace_before_it() -> None:
    assert (shown_name("f", "n"), shown_name("f", None), shown_name("f", "")) == ("n__f", "f", "f")


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ({"type": "custom", "name": "f"}, ["f"]),
        (
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}, {"name": "g"}]},
            ["n__f", "n__g"],
        ),
        ({"type": "namespace", "name": "n", "tools": []}, []),
        ({"type": "shell"}, ["shell"]),
    ],
)
def test_declared_tool_is_shown_under_its_names(declared: Object, names: list[str]) -> None:
    assert list(shown_names(declared)) == names
