"""Turns the segments of a model's output into items, as inputs of the response machine.

An item is opened by its first text or by its call, and closed by the next item or the end. A message has the phase
`commentary` if the model's format has a channel for text before a call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from antiphon_core.ids import Ids
from antiphon_core.jsons import Object
from antiphon_core.limits import APPROVALS_ITEMS_MAX, OUTPUT_ITEMS_MAX
from antiphon_core.request.items import MODEL_CALL_ID
from antiphon_core.request.server_items import PARALLEL_WITH
from antiphon_core.telemetry import metrics
from antiphon_translator.logprobs import requested as logprobs
from antiphon_translator.output.approval_call import ApprovalCall
from antiphon_translator.output.citations import Cite
from antiphon_translator.output.client_call import ClientCall
from antiphon_translator.output.custom_input import CustomInput
from antiphon_translator.output.item_kinds import (
    CUSTOM_TOOL_CALL,
    FUNCTION_CALL,
    MCP_CALL,
    MESSAGE,
    REASONING,
    REASONING_SUMMARY,
    REFUSAL,
    ItemKind,
)
from antiphon_translator.output.machine import Announce, Append, AppendScored, Close, Leave, OpenNext, ResponseMachine
from antiphon_translator.output.search_call import SearchCall
from antiphon_translator.parsing.segments import (
    Arguments,
    Break,
    CallBegin,
    CallEnd,
    Reasoning,
    Refusal,
    ScoredText,
    Segment,
    Text,
    Unread,
)
from antiphon_translator.prompt import call_ids
from antiphon_translator.prompt.tools import WEB_SEARCH, Tool, ToolSet

log = logging.getLogger(__name__)

CALL_ID_DIGITS = 24


class Assembly:
    """Assembles the items of one response. `calls` is the number of calls so far that are not incomplete, `is_empty`
    whether no item was begun. `is_full`: there are more items than the next request could send back, or more calls that
    need an approval than one response can ask for."""

    def __init__(
        self,
        machine: ResponseMachine,
        tools: ToolSet,
        ids: Ids,
        *,
        family: str,
        one_call: bool = False,
        summary: bool = False,
        items_before: int = 0,
        cite: Cite | None = None,
    ) -> None:
        """`family` is the name of the model's family. With `one_call`, only the first complete call becomes an item;
        with `summary`, reasoning is sent as its summary. `items_before` is the number of items of earlier rounds.
        `cite` finds the citations in an answer."""
        self.calls = 0
        self.is_empty = True
        self.is_full = False
        self._items = items_before
        self._machine = machine
        self._tools = tools
        self._ids = ids
        self._family = family
        self._one_call = one_call
        self._kinds: Mapping[type[Segment], ItemKind] = {
            Text: MESSAGE,
            Reasoning: REASONING_SUMMARY if summary else REASONING,
            Refusal: REFUSAL,
        }
        self._kind: ItemKind | None = None
        self._phase: str | None = None
        self._unwrap: CustomInput | None = None
        self._drops_call = False
        self._client_call: ClientCall | None = None
        self._approval_call: ApprovalCall | None = None
        self._approvals = 0
        self._search_call: SearchCall | None = None
        self._cite = cite
        self._first_server_call: str | None = None

    @property
    def has_enough(self) -> bool:
        """Whether the generation can be stopped: the first call is complete, and no second one is wanted."""
        held = self._client_call or self._approval_call or self._search_call
        return self._one_call and self.calls > 0 and self._kind is None and held is None

    def take(self, segments: Sequence[Segment]) -> None:
        """Sends segments to the machine, neighbouring pieces of one text joined."""
        for segment in segments if len(segments) < 2 else _join_segments(segments):
            match segment:
                case Text() | Reasoning() | Refusal():
                    kind = self._kinds[type(segment)]
                    if kind is not self._kind:
                        self._enter(kind)
                    self._machine.send(Append(segment.text))
                case CallBegin(name, model_id):
                    self._begin_call(name, model_id)
                case Arguments(text):
                    self._add_arguments(text)
                case CallEnd(is_complete):
                    self._end_call(is_complete=is_complete)
                case Unread(cause, length):
                    self._note_unread(cause, length)
                case Break(phase):
                    self.close()
                    self._phase = phase
                case ScoredText(text, tokens):
                    self._enter(MESSAGE)
                    self._machine.send(AppendScored(text, logprobs.as_objects(tokens)))

    def close(self, status: str = "completed") -> None:
        """Closes the open item, if there is one."""
        if self._kind is not None:
            self._machine.send(Close(status, self._cite if self._kind is MESSAGE else None))
            self._kind = None
            self._phase = None

    def add_empty_message(self, status: str) -> None:
        """Adds a message without text to a response without items, because clients expect a message."""
        self._open(MESSAGE, {})
        self.close(status)

    def _enter(self, kind: ItemKind) -> None:
        """Opens an item for text of this kind, unless one is open."""
        if self._kind is not kind:
            self.close()
            phase = self._phase if kind is MESSAGE else None
            self._open(kind, {"phase": phase} if phase is not None else {})

    def _open(self, kind: ItemKind, members: Object) -> None:
        self._machine.send(OpenNext(kind, members))
        self._kind = kind
        self._count_item()

    def _count_item(self) -> None:
        self._items += 1
        self.is_full = self.is_full or self._items > OUTPUT_ITEMS_MAX
        self.is_empty = False

    def _begin_call(self, name: str, model_id: str | None) -> None:
        self.close()
        tool = self._tools.tool_of_call(name)
        self._drops_call = self._is_unwanted(tool)
        if self._drops_call:
            return
        if tool.needs_approval:
            self._approvals += 1
            if self._approvals > APPROVALS_ITEMS_MAX:
                self.is_full = self._drops_call = True
                return
        self.calls += 1
        if tool.client is not None:
            self._client_call = ClientCall(tool.client, self._call_id())
            self.is_empty = False
            return
        if tool.server is not None:
            self._begin_server_call(tool, tool.server)
            return
        self._unwrap = CustomInput() if tool.is_custom else None
        self._open(CUSTOM_TOOL_CALL if tool.is_custom else FUNCTION_CALL, self._members(tool, name, model_id))

    def _begin_server_call(self, tool: Tool, server: str) -> None:
        first = self._first_server_call
        together = {PARALLEL_WITH: first} if first is not None else {}
        if tool == WEB_SEARCH:
            self._search_call = SearchCall(together)
            return
        members = {"server_label": server, "name": tool.name, **together}
        if tool.needs_approval:
            self._approval_call = ApprovalCall(members)
            self.is_empty = False
        else:
            self._open(MCP_CALL, members)
            self._first_server_call = first or self._machine.open_item_id

    def _is_unwanted(self, tool: Tool) -> bool:
        """Whether a call must not become an item: a second one, or one that tool_choice rules out."""
        if self._one_call and self.calls:
            return True
        ruled_out = tool in self._tools.shown and tool not in self._tools.callable
        if ruled_out:
            metrics.UNREAD_OUTPUT.of(self._family, "tool_choice").add()
            log.warning("the model called %s, which the tool choice rules out", tool.shown_as)
        return ruled_out

    def _members(self, tool: Tool, name: str, model_id: str | None) -> Object:
        """The members of a call. An id that the model wrote is kept if it has the tool's name: prompts of such models
        need it (Kimi)."""
        kept = {MODEL_CALL_ID: model_id} if model_id is not None and call_ids.is_named(model_id, name) else {}
        namespace = {"namespace": tool.namespace} if tool.namespace is not None else {}
        asynchronous = {"async": True} if tool.is_async else {}
        return {"call_id": self._call_id(), "name": tool.name, **namespace, **asynchronous, **kept}

    def _call_id(self) -> str:
        return f"call_{self._ids.hex(CALL_ID_DIGITS)}"

    def _add_arguments(self, text: str) -> None:
        if self._drops_call:
            return
        if self._client_call is not None:
            self._client_call.add(text)
            return
        if self._approval_call is not None:
            self._approval_call.add(text)
            return
        if self._search_call is not None:
            self._search_call.add(text)
            return
        if self._unwrap is not None:
            text = self._unwrap.feed(text)
        if text:
            self._machine.send(Append(text))

    def _note_unread(self, cause: str, length: int) -> None:
        metrics.UNREAD_OUTPUT.of(self._family, cause).add()
        log.warning(
            "%d characters of the output could not be read as a call of a %s model: %s", length, self._family, cause
        )

    def _end_call(self, *, is_complete: bool) -> None:
        if self._drops_call:
            self._drops_call = False
            return
        if not is_complete:
            self.calls -= 1
        if self._client_call is not None:
            call, self._client_call = self._client_call, None
            kind, members, is_whole = call.item()
            self._open(kind, members)
            self.close("completed" if is_complete and is_whole else "incomplete")
            return
        if self._approval_call is not None:
            asked, self._approval_call = self._approval_call, None
            self._ask(asked, is_whole=is_complete and asked.is_readable)
            return
        if self._search_call is not None:
            search, self._search_call = self._search_call, None
            if is_complete:
                self._announce(search.item(), is_left=True)
            return
        rest = self._unwrap.finish() if self._unwrap is not None else ""
        if rest:
            self._machine.send(Append(rest))
        self._unwrap = None
        if self._kind is MCP_CALL and is_complete:
            self._machine.send(Leave())
            self._kind = None
        self.close("completed" if is_complete else "incomplete")

    def _announce(self, item: Object, *, is_left: bool = False) -> None:
        self._machine.send(Announce(item, is_left))
        self._count_item()
        self._first_server_call = self._first_server_call or self._machine.items[-1]["id"]

    def _ask(self, call: ApprovalCall, *, is_whole: bool) -> None:
        """Sends the request for an approval, or the call without its end."""
        if is_whole:
            self._announce(call.request())
            return
        self._open(MCP_CALL, call.members)
        if call.arguments:
            self._machine.send(Append(call.arguments))
        self.close("incomplete")


def _join_segments(segments: Iterable[Segment]) -> Iterable[Segment]:
    """Joins neighbouring segments of one kind, so that a chunk makes one delta of them."""
    run: list[str] = []
    kind: type[Text | Reasoning | Refusal | Arguments] | None = None
    for segment in segments:
        if kind is not None and type(segment) is not kind:
            yield kind("".join(run))
            run, kind = [], None
        if isinstance(segment, Text | Reasoning | Refusal | Arguments):
            kind = type(segment)
            run.append(segment.text)
        else:
            yield segment
    if kind is not None:
        yield kind("".join(run))
