"""Single calls; how calls are told apart in whole streams is in test_chat_stream.py."""

from __future__ import annotations

import pytest

from antiphon_translator.engines.chat_calls import Call, CallPiece, CallTable


def call_of(*arguments: str, name: str = "f") -> Call:
    call = Call(CallPiece())
    for piece in (CallPiece(name=name), *(CallPiece(arguments=piece) for piece in arguments)):
        call.add(piece, ())
    return call


@pytest.mark.parametrize(
    ("arguments", "is_closed", "is_proven"),
    [
        ((), False, False),
        (("{}",), True, False),
        (("{", "}"), True, True),
        (('{"a":', "1}"), True, True),
        (('{"a":',), False, False),
        (("{}", '{"a":1}'), True, True),
        (('"{}', '"'), True, True),
    ],
)
def test_call_is_proven_when_no_later_piece_can_change_it(
    arguments: tuple[str, ...], is_closed: bool, is_proven: bool
) -> None:
    call = call_of(*arguments)
    assert (call.is_closed, call.is_proven) == (is_closed, is_proven)


def test_call_without_a_name_is_never_proven() -> None:
    assert not call_of('{"a":1}', name="").is_proven


@pytest.mark.parametrize(
    ("arguments", "is_cut_off", "rest"),
    [((), False, "{}"), ((), True, ""), (("{}",), True, "{}"), ((" ",), False, "{}"), (('{"a":\ud83d',), True, "�")],
)
def test_rest_is_what_was_not_taken(arguments: tuple[str, ...], is_cut_off: bool, rest: str) -> None:
    call = call_of(*arguments)
    call.take()
    assert call.take_rest(is_cut_off=is_cut_off) == rest


@pytest.mark.parametrize(
    "written", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '[{"a": ' * 50_000, '"' + "[" * 100_000]
)
def test_arguments_that_are_nested_too_deep_stay_as_they_are(written: str) -> None:
    assert call_of(written).take_rest(is_cut_off=False) == written


def test_text_within_text_is_taken_when_it_is_whole() -> None:
    call = call_of('"{\\"a')
    assert call.take() == ""
    call.add(CallPiece(arguments='\\":1}"'), ())
    assert call.take() == '{"a":1}'
    assert call_of('"text"').take() == '"text"'
    assert call_of('"cut').take_rest(is_cut_off=True) == '"cut'


def test_piece_that_says_nothing_belongs_to_no_call() -> None:
    table = CallTable()
    assert table.add(CallPiece(index=1)) is None
    first = table.add(CallPiece(index=0, name="f"))
    assert table.add(CallPiece(index=0)) is None
    assert table.add(CallPiece(index=0, arguments=" ")) is first


def test_one_id_for_all_calls_does_not_join_them() -> None:
    table = CallTable()
    first, second = (table.add(CallPiece(index=index, id="call_0", name=name)) for index, name in enumerate("fg"))
    assert first is not second
    assert table.add(CallPiece(index=0, id="call_0", arguments="{")) is first
    assert table.add(CallPiece(index=1, id="call_0", arguments="{")) is second


def test_pieces_that_repeat_the_name_are_compared_with_the_whole_call_only_once_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All arguments so far were joined for each piece: a call of 8 MB took minutes."""
    joined: list[str] = []

    def noted(call: Call) -> str:
        joined.append("".join(call._written))
        return joined[-1]

    monkeypatch.setattr(Call, "arguments", property(noted))
    table, pieces = CallTable(["f"]), ['{"a":"', *["x"] * 100, '"}']
    calls = [table.add(CallPiece(0, "call_1", "f", piece)) for piece in pieces]
    assert not joined
    assert table.add(CallPiece(0, "call_1", "f", "".join(pieces))) is calls[0]
    assert joined
