from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon_core.jsons import Object, dumps
from antiphon_core.limits import LINEAGE_KEYS_ITEMS_MAX
from antiphon_edge.turns.resent_conversations import ResentConversation, key_behind


def message(role: str, content: object) -> Object:
    return {"type": "message", "role": role, "content": content}


def call(call_id: str = "c1", arguments: str = '{"city":"Paris"}') -> Object:
    return {"type": "function_call", "call_id": call_id, "name": "weather", "arguments": arguments}


def result(call_id: str = "c1", output: object = "sunny") -> Object:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def key_of(given: Sequence[Object], output: Sequence[Object], *, tenant: str = "acme", model: str = "m") -> bytes:
    """The key under which a turn leaves its lineage."""
    return key_behind(ResentConversation.of(tenant, model, given).state, dumps(output))


def keys_of(given: Sequence[Object], *, tenant: str = "acme", model: str = "m") -> Sequence[bytes]:
    return ResentConversation.of(tenant, model, given).keys


ASKED = [message("user", "Hi")]
ANSWERED = [message("assistant", [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}])]
NEXT = message("user", "And now?")


@pytest.mark.parametrize(
    ("output", "resent"),
    [
        (ANSWERED, [message("assistant", "Hello")]),
        (ANSWERED, [ANSWERED[0] | {"id": "msg_1", "status": "completed"}]),
        ([{"type": "reasoning", "summary": []}, *ANSWERED], ANSWERED),
        (ANSWERED, [{"type": "reasoning", "encrypted_content": "v1"}, *ANSWERED]),
        (ANSWERED, [message("assistant", ""), *ANSWERED]),
        (ANSWERED, [message("developer", "It is noon."), *ANSWERED]),
        (ANSWERED, [*ANSWERED, {"type": "open_webui:code_interpreter", "id": "ci_1", "output": {}}]),
        ([{"type": "web_search_call", "id": "ws_1", "status": "completed"}, *ANSWERED], ANSWERED),
        ([call()], [call("another", '{ "city": "Paris" }')]),
        ([call(arguments="{no JSON")], [call(arguments="{no JSON")]),
    ],
)
def test_a_turn_is_found_when_its_conversation_is_resent_in_another_form(
    output: Sequence[Object], resent: Sequence[Object]
) -> None:
    assert keys_of([*ASKED, *resent, NEXT]) == (key_of(ASKED, output),)


@pytest.mark.parametrize(
    "resent",
    [
        [message("assistant", "Hello!")],
        [message("user", "Hello")],
        [message("assistant", [{"type": "output_text", "text": "Hell"}]), message("assistant", "o")],
        [call()],
    ],
)
def test_another_conversation_has_other_keys(resent: Sequence[Object]) -> None:
    assert key_of(ASKED, ANSWERED) not in keys_of([*ASKED, *resent, NEXT])


def test_images_and_files_are_part_of_a_conversation() -> None:
    seen = [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}]
    again = [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "file_id": None}]
    other = [{"type": "input_image", "image_url": "data:image/png;base64,BBBB"}]
    key = key_of([message("user", seen)], ANSWERED)
    assert keys_of([message("user", again), *ANSWERED, NEXT]) == (key,)
    assert key not in keys_of([message("user", other), *ANSWERED, NEXT])


def test_calls_and_results_may_be_interleaved_anew() -> None:
    """LibreChat keeps each result with its call."""
    calls, results = [call("1"), call("2", "{}")], [result("1"), result("2", "rain")]
    in_turn = key_of(ASKED, calls)
    behind = key_of([*ASKED, *calls, *results], ANSWERED)
    assert keys_of([*ASKED, *calls, *results]) == (in_turn,)
    rebuilt = [*ASKED, calls[0], results[0], calls[1], results[1], *ANSWERED, NEXT]
    assert keys_of(rebuilt)[0] == behind


@pytest.mark.parametrize(
    "output",
    [
        "sunny",
        [{"type": "input_text", "text": "sunny"}],
        [{"type": "output_text", "text": "sun"}, {"type": "output_text", "text": "ny"}],
    ],
)
def test_the_text_of_a_result_counts_and_not_its_form(output: object) -> None:
    key = key_of([*ASKED, call(), result()], ANSWERED)
    assert key in keys_of([*ASKED, call(), result(output=output), *ANSWERED, NEXT])


def test_tenants_and_models_have_keys_of_their_own() -> None:
    made = {key_of(ASKED, ANSWERED, tenant=tenant, model=model) for tenant in "ab" for model in "mn"}
    assert len(made) == 4


def test_only_the_longest_beginnings_are_looked_up_and_the_longest_first() -> None:
    items = [*ASKED]
    keys: list[bytes] = []
    for number in range(LINEAGE_KEYS_ITEMS_MAX + 3):
        answer = [message("assistant", str(number))]
        keys.append(key_of(items, answer))
        items += [*answer, NEXT]
    assert list(keys_of(items)) == keys[: -LINEAGE_KEYS_ITEMS_MAX - 1 : -1]


def test_a_conversation_without_an_answer_has_nothing_to_look_up() -> None:
    assert keys_of([message("system", "Be brief."), *ASKED]) == ()
    assert keys_of([*ASKED, *ANSWERED]) == ()


@pytest.mark.parametrize("output", [[], [{"type": "reasoning", "summary": []}], [message("assistant", "")]])
def test_an_output_that_no_client_resends_has_no_key(output: Sequence[Object]) -> None:
    assert key_of(ASKED, output) == b""


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "text", "\ud800", "acme:x_output", "[[1]]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text"]), inner),
    max_leaves=6,
)
_MEMBERS = ["role", "content", "output", "name", "arguments", "call_id", "action"]
_TYPES = st.sampled_from(["message", "function_call", "acme:x_output", "acme:x_call", "reasoning"])


@given(st.lists(st.dictionaries(st.sampled_from(_MEMBERS), _ODD), max_size=3), st.lists(_TYPES | _ODD, min_size=3))
@example([{"output": [{"type": ["x"]}]}], ["acme:x_output"])
@example([{"arguments": "[" * 900 + "]" * 900}], ["function_call"])
@example([{}], [["message"]])
def test_no_item_fails_a_hash(members: Sequence[Object], types: Sequence[object]) -> None:
    items = [each | {"type": item_type} for each, item_type in zip(members, types, strict=False)]
    conversation = ResentConversation.of("acme", "m", [*items, NEXT])
    assert len(conversation.state) == len(ResentConversation.of("acme", "m", []).state)
