from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.jsons import Object
from antiphon_core.limits import TOOL_LABEL_CHARS_MAX
from antiphon_core.ports.tools import DECLARED_LABEL
from antiphon_translator.prompt.tool_names import server_tool_name, shown_name, shown_names


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


_LABELS = st.text("ab_-", min_size=1, max_size=6).filter(re.compile(DECLARED_LABEL).fullmatch)
_NAMES = st.text("ab_- \u00e9", min_size=1, max_size=6)


@given(st.lists(st.tuples(_LABELS, st.integers(0, 1), _NAMES, st.integers(0, 70)), min_size=2, max_size=2))
def test_tool_of_one_server_never_has_the_name_of_another_servers_tool(given: list[tuple[str, int, str, int]]) -> None:
    """Labels are of any length up to the limit, and names may have to be cut or changed."""
    tools = [
        ((label + "-x" * 24 * is_long)[:TOOL_LABEL_CHARS_MAX], name + "y" * more)
        for label, is_long, name, more in given
    ]
    (one, other), names = tools, [server_tool_name(*tool) for tool in tools]
    assert one[0] == other[0] or names[0] != names[1]
    assert all(name.startswith(f"{label}__") for name, (label, _) in zip(names, tools, strict=True))
