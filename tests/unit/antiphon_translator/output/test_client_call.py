from __future__ import annotations

import pytest

from antiphon_core.limits import CLIENT_CALL_CHARS_MAX
from antiphon_translator.output.client_call import ClientCall
from antiphon_translator.prompt.client_tools import CLIENT_TOOLS


def call(*pieces: str) -> ClientCall:
    made = ClientCall(CLIENT_TOOLS["shell"], "call_1")
    for piece in pieces:
        made.add(piece)
    return made


def test_complete_call_has_its_action() -> None:
    kind, members, is_whole = call('{"comm', 'ands": ["ls"]}').item()
    assert (kind.blank["type"], is_whole) == ("shell_call", True)
    assert members == {"call_id": "call_1", "action": {"commands": ["ls"]}, "environment": {"type": "local"}}


def test_lone_surrogate_in_a_call_becomes_the_replacement_character() -> None:
    _, members, is_whole = call(r'{"commands": ["ls \ud83d"]}').item()
    assert (members["action"], is_whole) == ({"commands": ["ls \ufffd"]}, True)


@pytest.mark.parametrize("over", [0, 1])
def test_call_over_the_limit_is_incomplete(over: int) -> None:
    begin, end = '{"commands": ["', '"]}'
    command = "x" * (CLIENT_CALL_CHARS_MAX - len(begin) - len(end) + over)
    _, members, is_whole = call(begin, command, end).item()
    assert (members["action"], is_whole) == ({"commands": [] if over else [command]}, not over)


@pytest.mark.parametrize("pieces", [(), ('{"commands": ["rm', " -rf"), ('{"commands": []}',), ("[]",)])
def test_incomplete_or_invalid_call_has_an_empty_action(pieces: tuple[str, ...]) -> None:
    _, members, is_whole = call(*pieces).item()
    assert (members["action"], is_whole) == ({"commands": []}, False)
