"""The messages of a conversation in an order that every chat server and template reads.

The results of calls are directly behind the assistant's message that has all these calls. Strict servers reject any
other order, and templates lose a result somewhere else. The items of a request may have another one:

* Reasoning, text and calls of the assistant are one message (a *round*) until a result or another speaker follows.
  Reasoning and text behind a call whose result has not come do not end it: the model wrote them in the same turn.
* A result that comes behind the end of its round goes to the place behind its call, which was kept for it.
* The results of a round are in the order of its calls: templates without ids tell them apart by their order.
* A second output of a call joins the first. Behind its round it is a note in a user message, so that no text is lost.
* An asynchronous call without an output has the result PENDING. Its output is such a note, too.
* Calls and results have the ids that the model knows: those that it wrote, or ids in the form of its family.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from operator import attrgetter

from antiphon_translator.conversation import Call, Image, Message
from antiphon_translator.prompt import call_ids
from antiphon_translator.prompt.call_ids import CallIds

PENDING = '{"status": "pending"}'
"""The result of an asynchronous call, as a model is shown it, while the conversation goes on without its output."""
LATE_OUTPUT_NOTE = "[Output of the call {call_id} of {name}, which was pending]"
FURTHER_OUTPUT_NOTE = "[Another output of the call {call_id} of {name}]"

Parts = tuple[str | Image, ...]
_ID, _CALL_ID, _MODEL_ID = attrgetter("id"), attrgetter("call_id"), attrgetter("model_id")


@dataclass(frozen=True, slots=True)
class RoundsState:
    """The state on which the place of the next items depends, beside the messages. Nothing in it may be changed."""

    open: Message | None = None
    """The assistant's last message, to which the next items may be added."""
    results: tuple[Message, ...] = ()
    """The results of its calls so far."""
    called: dict[str, Call] = field(default_factory=dict)
    """The calls by id."""
    waiting: tuple[str, ...] = ()
    """The ids of the calls without a result. Asynchronous calls are not among them."""
    running: frozenset[str] = frozenset()
    """The ids of asynchronous calls without a result."""
    pending: frozenset[str] = frozenset()
    """The ids of asynchronous calls that the model was shown as pending."""


NO_ROUNDS = RoundsState()


class Rounds:
    """Places messages, each with its *origin*: the path of the item with which it begins."""

    def __init__(
        self, messages: tuple[Message, ...] = (), state: RoundsState = NO_ROUNDS, *, ids: CallIds = call_ids.ANY
    ) -> None:
        """Continues a conversation that was read before, whose messages are without origins here."""
        self._ids = ids
        self._known = len(messages)
        self._messages: list[Message | None] = list(messages)
        self._origins = [""] * len(messages)
        self._kept: dict[str, deque[int]] = {}
        """The places of results that come behind the end of their round, by the ids of their calls."""
        self._open = state.open
        self._open_origin = ""
        self._thoughts = [state.open.reasoning] if state.open is not None else []
        """The reasoning of the open message, joined when it ends. Joining 10 MB of it item by item took 7 s."""
        self._due = Counter(map(_ID, state.open.calls if state.open is not None else ()))
        """How many results of the open round have not come, by the ids of their calls."""
        self._due.subtract(map(_CALL_ID, state.results))
        self._results: dict[str, list[tuple[Message, str]]] = {}
        for result in state.results:
            self._results.setdefault(result.call_id, []).append((result, ""))
        self._called = dict(state.called)
        self._model_ids = set(map(_MODEL_ID, self._called.values()))
        self._waiting = dict.fromkeys(state.waiting)
        self._running = set(state.running)
        self._pending = set(state.pending)

    @property
    def waiting(self) -> list[str]:
        """The ids of the calls without a result. Asynchronous calls are not among them."""
        return list(self._waiting)

    @property
    def is_settled(self) -> bool:
        """Whether no place among the messages is kept for a result."""
        return not any(self._kept.values())

    def new_messages(self) -> list[Message]:
        """The messages behind those that were known."""
        return [message for message in self._messages[self._known :] if message is not None]

    def state(self) -> RoundsState:
        """The state on which the place of the next items depends, for settled rounds."""
        results = tuple(result for given in self._results.values() for result, _ in given)
        return RoundsState(
            self._spoken_so_far(),
            results,
            dict(self._called),
            tuple(self._waiting),
            frozenset(self._running),
            frozenset(self._pending),
        )

    def finish(self) -> list[Message]:
        """Ends the conversation, and returns its messages."""
        self._close()
        return [message for message in self._messages if message is not None]

    def origins(self) -> list[str]:
        """The origins of the messages so far."""
        placed = zip(self._messages, self._origins, strict=True)
        return [origin for message, origin in placed if message is not None]

    def say(self, message: Message, origin: str) -> None:
        """Adds a message of another speaker than the assistant."""
        self._close()
        self._place(message, origin)

    def add_reasoning(self, text: str, origin: str) -> None:
        self._open = self._next_message(origin)
        self._thoughts.append(text)

    def add_text(self, parts: Parts, origin: str, *, name: str = "", is_commentary: bool = False) -> None:
        spoken = self._next_message(origin)
        self._open = spoken._replace(
            parts=(*spoken.parts, *parts), name=name or spoken.name, is_commentary=is_commentary
        )

    def add_call(self, call: Call, origin: str, *, is_async: bool = False) -> None:
        spoken = self._begin(origin) if self._open is None or self._results else self._open
        model_id = self._ids.of(call, used=self._model_ids, number=len(self._called), place=len(spoken.calls))
        self._model_ids.add(model_id)
        if model_id != call.model_id:
            call = replace(call, model_id=model_id)
        self._open = spoken._replace(calls=(*spoken.calls, call))
        self._due[call.id] += 1
        self._called[call.id] = call
        if is_async:
            self._running.add(call.id)
        else:
            self._waiting[call.id] = None

    def has_call(self, call_id: object) -> bool:
        """Whether there is a call with this id."""
        return isinstance(call_id, str) and call_id in self._called

    def add_result(self, call_id: str, parts: Parts, origin: str) -> bool:
        """Adds an output of a call; False if there is no such call."""
        call = self._called.get(call_id)
        if call is None:
            return False
        self._waiting.pop(call_id, None)
        self._running.discard(call_id)
        result = Message("tool", parts, call_id=call_id, name=call.name)
        if places := self._kept.get(call_id):
            place = places.popleft()
            self._messages[place], self._origins[place] = self._with_prompt_ids(result), origin
        elif self._due[call_id]:
            self._due[call_id] -= 1
            self._results.setdefault(call_id, []).append((result, origin))
        elif given := self._results.get(call_id):
            last, begun = given[-1]
            given[-1] = last._replace(parts=(*last.parts, *parts)), begun
        else:
            note = LATE_OUTPUT_NOTE if call_id in self._pending else FURTHER_OUTPUT_NOTE
            self.say(Message("user", (note.format(call_id=call.prompt_id, name=call.name), *parts)), origin)
        return True

    def _next_message(self, origin: str) -> Message:
        """The assistant's message that gets its next reasoning or text."""
        spoken = self._open
        if spoken is None or self._results:
            return self._begin(origin)
        has_spoken = bool(spoken.parts or spoken.calls)
        return self._begin(origin) if has_spoken and self._waiting.keys().isdisjoint(self._due) else spoken

    def _spoken_so_far(self) -> Message | None:
        """The open message with its reasoning."""
        if self._open is None or not self._thoughts:
            return self._open
        return self._open._replace(reasoning="\n".join(filter(None, self._thoughts)))

    def _begin(self, origin: str) -> Message:
        self._close()
        self._open_origin = origin
        return Message("assistant")

    def _close(self) -> None:
        """Ends the round: places its message and the results of its calls, and keeps a place for each other result."""
        spoken = self._spoken_so_far()
        if spoken is None:
            return
        self._place(spoken, self._open_origin)
        for call in spoken.calls:
            self._place_result(call)
        self._open = None
        self._thoughts.clear()
        self._due.clear()
        self._results.clear()

    def _place_result(self, call: Call) -> None:
        if given := self._results.get(call.id):
            self._place(*given.pop(0))
        elif call.id in self._running:
            self._running.remove(call.id)
            self._pending.add(call.id)
            self._place(Message("tool", (PENDING,), call_id=call.id, name=call.name), self._open_origin)
        elif call.id in self._waiting:
            self._kept.setdefault(call.id, deque()).append(len(self._messages))
            self._place(None, "")

    def _with_prompt_ids(self, message: Message) -> Message:
        if not message.calls and not message.call_id:
            return message
        calls = tuple(replace(call, id=call.prompt_id) for call in message.calls)
        return message._replace(calls=calls, call_id=self._called[message.call_id].prompt_id if message.call_id else "")

    def _place(self, message: Message | None, origin: str) -> None:
        self._messages.append(message and self._with_prompt_ids(message))
        self._origins.append(origin)
