"""Turns the items of a turn into a conversation for the model.

Every item is read, skipped on purpose, or rejected with its path in the request (`input[3].content[0]`): no item is
dropped silently. This module does not depend on the template or the tokenizer; the tables here list the types of items
and parts that a model can be shown.

The messages that items become are put in order by rounds.py. A call without a result is rejected, unless it is
asynchronous. The `instructions` of the request become the first message, a system message. Those of earlier turns are
not in the history, so they are not inherited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from antiphon_core.errors import InvalidRequest
from antiphon_core.items import is_extension
from antiphon_core.jsons import Object, kind, parse_object
from antiphon_core.request import server_items
from antiphon_core.request.client_items import SEARCH_CALL, SEARCH_OUTPUT
from antiphon_core.request.items import LOCAL_OUTPUT, MODEL_CALL_ID
from antiphon_translator.conversation import ROLES, Call, Conversation, Image, Message
from antiphon_translator.media import turn_media
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.prompt import call_ids, client_tools, server_calls
from antiphon_translator.prompt.call_ids import CallIds
from antiphon_translator.prompt.read_history import NOTHING_READ, ReadHistory
from antiphon_translator.prompt.rounds import Parts, Rounds
from antiphon_translator.prompt.tool_names import server_tool_name, shown_name
from antiphon_translator.prompt.tools import WEB_SEARCH

_Row = TypeVar("_Row")

SUMMARY_NOTE = "[Earlier parts of this conversation were replaced by this summary of them.]\n"

UNREADABLE = "INVALID_JSON"
"""The name of the one argument that stands for arguments that are not a JSON object."""

_RESULTS = ("function_call_output", "custom_tool_call_output", *client_tools.OUTPUTS)
_CUT_OFF = ("in_progress", "incomplete")


def build(
    *,
    instructions: str | None,
    history: Sequence[Any],
    given: Sequence[Any],
    output: Sequence[Any] = (),
    tools: Sequence[Object] = (),
    media: TurnMedia | None = None,
    known: ReadHistory = NOTHING_READ,
    ids: CallIds = call_ids.ANY,
) -> tuple[Conversation, ReadHistory]:
    """The conversation of one turn, and its history as it was read, without `text` and `declared`. `history` are the
    items of the history behind the `known` ones, `given` those of the turn's input, `output` those of the response so
    far. `media` reads images and files.
    `ids` are those of calls in the model's prompts.

    InvalidRequest: an item or a part cannot be shown to the model, with its path; or the conversation is empty.
    """
    rounds = Rounds(known.messages.messages, known.rounds, ids=ids)
    draft = _Draft(rounds, media or TurnMedia(), {*known.answered, *_answered_ids([*history, *given, *output])})
    read = known
    if history:
        draft.read(history, "history", known.items)
        read = draft.so_far(known, _answered_ids(history), known.items + len(history))
    draft.read(given, "input", 0)
    if output:
        draft.read(output, "output", 0)
    draft.require_results()
    opening = [Message("system", (instructions,))] if instructions else []
    messages = (*opening, *draft.rounds.finish())
    if not messages:
        raise InvalidRequest("There is nothing to answer: the input is empty.", field="input", code="empty_array")
    continues_last = _is_cut_off(given) and _is_plain(messages[-1]) and not server_calls.count(output)
    return Conversation(messages, tuple(tools), continues_last, read.messages, len(opening)), read


def path_of(
    place: int,
    *,
    instructions: str | None,
    history: Sequence[Any],
    given: Sequence[Any],
    output: Sequence[Any] = (),
    media: TurnMedia | None = None,
) -> str:
    """The path of the item with which the message at index `place` begins, in the conversation that `build` makes of
    these items."""
    place -= bool(instructions)
    if place < 0:
        return "instructions"
    draft = _Draft(Rounds(), media or TurnMedia(), _answered_ids([*history, *given, *output]))
    draft.read(history, "history", 0)
    draft.read(given, "input", 0)
    draft.read(output, "output", 0)
    draft.rounds.finish()
    origins = draft.rounds.origins()
    return origins[place] if place < len(origins) else "input"


@dataclass
class _Draft:
    """The conversation so far. `answered` are the ids of calls that have results anywhere in the items. `is_whole`: no
    later item can change how the items so far were read."""

    rounds: Rounds
    media: TurnMedia
    answered: Collection[str] = ()
    is_whole: bool = True
    held_results: list[tuple[str, str, str]] = field(default_factory=list)
    """The results of the calls of a server in the round that is read: id of the call, text, path."""

    def read(self, items: Sequence[Any], where: str, first: int) -> None:
        """Reads items, which are in the member `where` from index `first` on."""
        ends: Mapping[str, int] | None = None
        for index, item in enumerate(items):
            path = f"{where}[{first + index}]"
            if _is_extension(item):
                continue
            _row(_READERS, item, path, default="message")(self, item, path)
            if self.held_results:
                ends = server_calls.ends_of_rounds(items) if ends is None else ends
                if ends.get(self.held_results[0][0], index) <= index:
                    self.add_held_results()

    def so_far(self, known: ReadHistory, answered: Collection[str], items: int) -> ReadHistory:
        """The history as read so far, for later turns; only the known one if the rest depends on more than its bytes,
        or if the place of a result is still empty."""
        if not self.is_whole or self.media.has_read or not self.rounds.is_settled:
            return known
        return ReadHistory(
            items=items,
            messages=known.messages.followed_by(self.rounds.new_messages()),
            rounds=self.rounds.state(),
            answered=known.answered.union(answered),
        )

    def add_result(self, call_id: str, parts: Parts, path: str) -> None:
        """Adds the result of a call. InvalidRequest: there is no such call."""
        if not self.rounds.add_result(call_id, parts, path):
            raise InvalidRequest(
                f"No tool call found for function call output with call_id {call_id}.", field="input", code=None
            )

    def add_held_results(self) -> None:
        """Adds the results of a round behind its last call."""
        for call_id, text, path in self.held_results:
            self.rounds.add_result(call_id, (text,), path)
        self.held_results.clear()

    def require_results(self) -> None:
        """InvalidRequest: a call has no result."""
        for call_id in self.rounds.waiting:
            raise InvalidRequest(f"No tool output found for function call {call_id}.", field="input", code=None)


# ---- Readers: one for each type of item ----


def _read_message(draft: _Draft, item: Object, path: str) -> None:
    role = item.get("role")
    if not isinstance(role, str):
        raise _type_error(f"{path}.role", role, "a string")
    if role not in ROLES:
        raise _unsupported_error(f"{path}.role", f"A message's role must be one of {', '.join(ROLES)}, not {role!r}.")
    parts = _read_content(item.get("content"), path, "content", draft.media)
    if role != "user":
        _reject_images(parts, path, role)
    name = _speaker(item)
    if role == "assistant":
        draft.rounds.add_text(parts, path, name=name, is_commentary=item.get("phase") == "commentary")
    else:
        draft.rounds.say(Message(role, parts, name=name), path)


def _read_reasoning(draft: _Draft, item: Object, path: str) -> None:
    """Reads a reasoning item: its content, or its summary if it has no content."""
    for member in ("content", "summary"):
        parts = item.get(member) or []
        if not isinstance(parts, list):
            raise _type_error(f"{path}.{member}", parts, "an array")
        if parts:
            texts = [_read_part(part, f"{path}.{member}[{n}]") for n, part in enumerate(parts)]
            draft.rounds.add_reasoning("\n".join(texts), path)
            return


def _read_function_call(draft: _Draft, item: Object, path: str) -> None:
    if _is_void(draft, item):
        return
    arguments = _arguments(_text(item, "arguments", path))
    call = Call(_text(item, "call_id", path), _called_name(item, path), arguments, _model_id(item, path))
    draft.rounds.add_call(call, path, is_async=item.get("async") is True)


def _model_id(item: Object, path: str) -> str:
    return _text(item, MODEL_CALL_ID, path) if item.get(MODEL_CALL_ID) is not None else ""


def _is_void(draft: _Draft, item: Object) -> bool:
    """Whether a call was cut off and has no result. Such a call is skipped."""
    if item.get("status") != "incomplete":
        return False
    draft.is_whole = False
    return item.get("call_id") not in draft.answered


def _read_custom_call(draft: _Draft, item: Object, path: str) -> None:
    if _is_void(draft, item):
        return
    arguments = {"input": _text(item, "input", path)}
    call = Call(_text(item, "call_id", path), _called_name(item, path), arguments, _model_id(item, path))
    draft.rounds.add_call(call, path, is_async=item.get("async") is True)


def _read_result(draft: _Draft, item: Object, path: str) -> None:
    parts = _read_content(item.get("output"), path, "output", draft.media)
    draft.add_result(_text(item, "call_id", path), parts, path)


def _read_client_call(draft: _Draft, item: Object, path: str) -> None:
    """Reads a call of a client tool (client_tools.py)."""
    if _is_void(draft, item):
        return
    tool = client_tools.BY_CALL_TYPE[item["type"]]
    draft.rounds.add_call(Call(_text(item, "call_id", path), tool.name, tool.arguments(item)), path)


def _read_client_result(draft: _Draft, item: Object, path: str) -> None:
    parts = client_tools.OUTPUTS[item["type"]](item)
    read = [part if isinstance(part, str) else draft.media.read(part, f"{path}.output") for part in parts]
    draft.add_result(_call_id(item, path), tuple(read), path)


def _read_search_call(draft: _Draft, item: Object, path: str) -> None:
    """Reads a search for tools that the client ran. One that another server ran is not shown to the model."""
    if item.get("execution") == "client":
        _read_client_call(draft, item, path)


def _read_search_output(draft: _Draft, item: Object, path: str) -> None:
    """Reads the output of a search for tools. OpenAI's types let clients leave `execution` out, so an output belongs to
    the client's search that it names, if there is one."""
    if item.get("execution") == "client" or draft.rounds.has_call(item.get("call_id")):
        _read_client_result(draft, item, path)


def _read_server_call(draft: _Draft, item: Object, path: str) -> None:
    """Reads a call that a server ran, with its result. If a request approved it, the request is the call."""
    request_id = item.get("approval_request_id")
    if draft.rounds.has_call(request_id):
        draft.rounds.add_result(str(request_id), (server_calls.result_text(item),), path)
        return
    call = _add_server_call(draft, item, path)
    draft.held_results.append((call.id, server_calls.result_text(item), path))


def _read_web_search(draft: _Draft, item: Object, path: str) -> None:
    """Reads a search of the web with its results. One that another server ran is not shown to the model."""
    if server_calls.is_own_search(item):
        call = Call(_text(item, "id", path), WEB_SEARCH.shown_as, {"query": server_calls.query_of(item)})
        draft.rounds.add_call(call, path)
        draft.held_results.append((call.id, server_calls.search_text(item), path))


def _add_server_call(draft: _Draft, item: Object, path: str) -> Call:
    name = server_tool_name(_text(item, "server_label", path), _text(item, "name", path))
    call = Call(_text(item, "id", path), name, _arguments(_text(item, "arguments", path)))
    draft.rounds.add_call(call, path)
    return call


def _read_approval_request(draft: _Draft, item: Object, path: str) -> None:
    """Reads a call that waits for an approval. One that nobody has approved did not run: the conversation goes on."""
    call = _add_server_call(draft, item, path)
    if call.id not in draft.answered:
        draft.is_whole = False
        draft.held_results.append((call.id, server_calls.NOT_APPROVED, path))


def _read_approval_response(draft: _Draft, item: Object, path: str) -> None:
    """Reads the answer to an approval request. Only a denial is a result of the call."""
    if item.get("approve") is not True:
        request_id = _text(item, "approval_request_id", path)
        if not draft.rounds.add_result(request_id, (server_calls.denial_text(item),), path):
            message = f"No approval request found with id '{request_id}'."
            raise InvalidRequest(message, field=f"{path}.approval_request_id", code="invalid_value")


def _call_id(item: Object, path: str) -> str:
    """The id of the call that an output belongs to. An item that another service has stored may name the call of a
    local shell by its own `id`."""
    is_unnamed = item["type"] == LOCAL_OUTPUT and item.get("call_id") is None
    return _text(item, "id" if is_unnamed else "call_id", path)


def _read_compaction(draft: _Draft, item: Object, path: str) -> None:
    """Reads a compaction item: the model's summary of earlier turns. It is shown as a user message with a note."""
    summary = item.get("summary")
    if not isinstance(summary, list):
        raise _type_error(f"{path}.summary", summary, "an array")
    texts = [_read_part(part, f"{path}.summary[{n}]") for n, part in enumerate(summary)]
    draft.rounds.say(Message("user", (SUMMARY_NOTE + "\n".join(texts),)), path)


def _skip(_draft: _Draft, _item: Object, _path: str) -> None:
    """Skips an item that the model is not shown: searches, settings, declarations of tools (tools.py)."""


_READERS: Mapping[str, Callable[[_Draft, Object, str], None]] = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_function_call,
    "function_call_output": _read_result,
    "custom_tool_call": _read_custom_call,
    "custom_tool_call_output": _read_result,
    **dict.fromkeys(client_tools.BY_CALL_TYPE, _read_client_call),
    **dict.fromkeys(client_tools.OUTPUTS, _read_client_result),
    "compaction": _read_compaction,
    "compaction_trigger": _skip,
    "configuration_update": _skip,
    "additional_tools": _skip,
    SEARCH_CALL: _read_search_call,
    SEARCH_OUTPUT: _read_search_output,
    server_items.SEARCH: _read_web_search,
    "file_search_call": _skip,
    server_items.LISTING: _skip,
    server_items.CALL: _read_server_call,
    server_items.REQUEST: _read_approval_request,
    server_items.RESPONSE: _read_approval_response,
}
"""The reader of each type of item."""

_PART_TEXT: Mapping[str, str] = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "reasoning_text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}
"""The member of each type of content part that has its text."""


# ---- Readers of their parts ----


def _read_content(content: Any, item: str, member: str, media: TurnMedia) -> tuple[str | Image, ...]:
    """Reads the content of an item. `item` is the path of the item, `member` the member with the content."""
    if isinstance(content, str):
        return (content,)
    if isinstance(content, list) and len(content) == 1 and (only := _only_text(content[0])) is not None:
        return (only,)
    path = f"{item}.{member}"
    if not isinstance(content, list):
        raise _type_error(path, content, "a string or an array")
    return tuple(
        media.read(part, f"{path}[{n}]") if turn_media.is_media(part) else _read_part(part, f"{path}[{n}]")
        for n, part in enumerate(content)
    )


def _only_text(part: Any) -> str | None:
    """The text of a plain text part; None for all others. Most messages of a long chat have one such part, and are read
    here without building a path."""
    if isinstance(part, dict) and part.get("type") in ("input_text", "output_text"):
        text = part.get("text")
        return text if isinstance(text, str) else None
    return None


def _speaker(item: Object) -> str:
    """The name of a message's speaker, if it has one. Stored messages may have anything under this name."""
    name = item.get("name")
    return name if isinstance(name, str) else ""


def _reject_images(parts: Sequence[str | Image], item: str, role: str) -> None:
    for n, part in enumerate(parts):
        if isinstance(part, Image):
            path = f"{item}.content[{n}]"
            message = f"'{path}' is an image. Only messages of the user and outputs of tools may have images, not the "
            raise _unsupported_error(path, f"{message}{role}'s.")


def _read_part(part: Any, path: str) -> str:
    return _text(part, _row(_PART_TEXT, part, path, default=None), path)


def _text(value: Object, member: str, path: str) -> str:
    text = value.get(member)
    if not isinstance(text, str):
        raise _type_error(f"{path}.{member}", text, "a string")
    return text


def _is_extension(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(given := item.get("type"), str) and is_extension(given)


def _called_name(item: Object, path: str) -> str:
    return shown_name(_text(item, "name", path), item.get("namespace"))


def _answered_ids(items: Sequence[Any]) -> Collection[str]:
    """The ids of the calls that have results, and of the approval requests that are settled."""
    answered = set[str]()
    for item in items:
        kind, call_id = item.get("type") if isinstance(item, dict) else None, None
        if kind in _RESULTS:
            call_id = item.get("call_id") or item.get("id")
        elif kind in server_calls.SETTLING:
            call_id = server_calls.settled_request(item)
        if isinstance(call_id, str):
            answered.add(call_id)
    return answered


def _arguments(written: str) -> Object:
    """Reads the arguments of an earlier call. Text that is no JSON object, or is nested too deep, is shown to the model
    as the argument UNREADABLE: a model wrote it, and the client that continues cannot mend it."""
    try:
        return parse_object(written.encode() or b"{}")
    except InvalidRequest:
        return {UNREADABLE: written}


def _is_cut_off(given: Sequence[Any]) -> bool:
    """Whether the input ends with an unfinished item of the assistant, which the model is to continue."""
    last = given[-1] if given else {}
    is_assistants = last.get("role") == "assistant" or last.get("type") == "reasoning"
    return is_assistants and last.get("status") in _CUT_OFF


def _is_plain(message: Message) -> bool:
    return message.role == "assistant" and not message.calls


def _row(table: Mapping[str, _Row], value: Any, path: str, *, default: str | None) -> _Row:
    """The row of a table for the type of an item or a part. InvalidRequest: the table has none."""
    if not isinstance(value, dict):
        raise _type_error(path, value, "an object")
    given = value.get("type", default)
    if not isinstance(given, str):
        raise _type_error(f"{path}.type", given, "a string")
    if given not in table:
        raise _unsupported_error(path, f"'{path}' has the type {given!r}, which this model cannot be given.")
    return table[given]


def _unsupported_error(path: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, field=path, code="unsupported_value")


def _type_error(path: str, value: object, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"'{path}' must be {wanted}, but is {kind(value)}.", field=path, code="invalid_type")
