"""The response machine: a state machine that turns inputs into the events of a response.

Rule 1: only the table `ResponseMachine.TRANSITIONS` decides whether an input is allowed in a state. An input without a
row for the state is a bug of the caller and raises `IllegalInput`, which names both.

Rule 2: the machine does no I/O and uses no clock and no randomness; ids and times are passed in.

Rule 3: sequence numbers start at 0 and have no gaps, an item keeps its id and index from its first event to its last,
and the one terminal event is the last event.

Rule 4: after each input, the fold of the events so far equals `snapshot()`.

A response begins (created, in_progress), then gets any number of items, one at a time, and ends:

    IDLE --Begin--> BETWEEN_ITEMS --OpenNext--> IN_ITEM --Append | AppendScored--> IN_ITEM
                         ^    |                    |  |
                         |    |                    |  '--Fail--> ENDED
                         '----+-------Close--------'
                              |
                              |--Complete | Incomplete | Fail--> ENDED
                              '--Pause--> PAUSED

A call that the server runs is left open (IN_ITEM --Leave--> BETWEEN_ITEMS). A response with such calls is made in
rounds, each by a machine of its own: it begins with the output of the rounds before, and pauses when its calls are to
be run. A list of tools, a request for an approval and a call that was approved are sent at once (BETWEEN_ITEMS
--Announce--> BETWEEN_ITEMS).

item_kinds.py defines the events of each kind of item. Frames collect until `take` returns them as batches. The last
batch has the terminal event, and the record to commit before it is sent. The terminal event is alone in its batch; if
the response failed, the frames that were held back are in it, too. The last batch of a round that pauses has at least
one event, which is written together with the decision to run the calls: so the last event waits while a call is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from enum import Enum, auto
from typing import Any, ClassVar, NamedTuple

from antiphon_core import events, response
from antiphon_core.errors import AntiphonError
from antiphon_core.ids import Ids, new_item_id
from antiphon_core.items import ID_PREFIX
from antiphon_core.jsons import Fragment, Object, dumps, loads
from antiphon_core.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Usage
from antiphon_core.ports.translator import Pause as RoundEnd
from antiphon_core.values import value
from antiphon_translator.output.citations import Cite
from antiphon_translator.output.item_kinds import MESSAGE, ItemKind, OpenItem, annotation_event, announcement


class State(Enum):
    IDLE = auto()
    BETWEEN_ITEMS = auto()
    IN_ITEM = auto()
    PAUSED = auto()
    ENDED = auto()

    __hash__ = object.__hash__  # the hash of an Enum is a function in Python, and each token looks its state up


@value
class Begin:
    """Begins the response."""


@value
class OpenNext:
    """Opens an item of this kind; `members` are those of this item, the name of a function for example."""

    kind: ItemKind = MESSAGE
    members: Object = field(default_factory=dict)


@value
class Append:
    """Appends text to the open item."""

    text: str


@value
class AppendScored:
    """Appends text to the open message, with the log probabilities of its tokens in the form of the API."""

    text: str
    logprobs: Sequence[Object]


@value
class Close:
    """Closes the open item; its `status` is `incomplete` if it was cut off. `cite` finds the citations in its text."""

    status: str = "completed"
    cite: Cite | None = None


@value
class Leave:
    """Leaves the open item as it is: the model has written a call, which the server will run."""


@value
class Announce:
    """Adds an item with all its members. One without an id gets one. With `is_left` it is a call that the server will
    run."""

    item: Object
    is_left: bool = False


@value
class Pause:
    """Ends the round: the calls that were left open are to be run. `cut_off` is the reason if the model was cut off,
    `lineage` that of `Pause` in the port."""

    usage: Usage
    cut_off: str = ""
    lineage: bytes = b""


@value
class Complete:
    """Ends the response: the model was done. `completed_at` is in Unix seconds. `lineage` is that of `Final`,
    `diagnostics` are those of the prompt's cache, where the request wants them."""

    usage: Usage
    completed_at: int
    lineage: bytes = b""
    diagnostics: Object | None = None


@value
class Incomplete:
    """Ends the response before the model was done. `reason` is that of `incomplete_details` in the API, `lineage` and
    `diagnostics` as in Complete."""

    usage: Usage
    reason: str
    lineage: bytes = b""
    diagnostics: Object | None = None


@value
class Fail:
    """Ends the response with an error."""

    usage: Usage
    error: AntiphonError


Input = Begin | OpenNext | Append | AppendScored | Close | Leave | Announce | Pause | Complete | Incomplete | Fail


class IllegalInput(Exception):
    """The state of the machine does not allow the input: a bug of the caller."""


class Transition(NamedTuple):
    """The effect of an input in a state: `emit` frames the events, then `next_state` holds."""

    emit: Callable[[Any, Any], None]
    next_state: State


class ResponseMachine:
    """Turns inputs into framed events, and keeps the response that the events add up to."""

    def __init__(self, skeleton: Object, ids: Ids, output: Sequence[Object] = ()) -> None:
        """`skeleton` is the response before its first event (antiphon_core.response.skeleton), `output` are the items
        of the rounds before."""
        self.state = State.IDLE
        self.final: Final | None = None
        """The finished response; set by the input that ended it."""
        self.pause: RoundEnd | None = None
        """The end of the round; set by the input that paused the response."""
        self.left = 0
        """How many calls were left open."""
        self._response = skeleton | {"output": [*output]} if output else skeleton
        self._ids = ids
        self._next_sequence = 0
        self._frames: list[bytes] = []
        self._item: OpenItem | None = None
        self._closed_bytes = 0

    @property
    def output_bytes(self) -> int:
        """The size of the output so far, about that of its JSON."""
        return self._closed_bytes + (self._item.size_bytes if self._item is not None else 0)

    def send(self, given: Input) -> None:
        """Applies one input. IllegalInput: the table has no row for it in this state, and nothing was changed."""
        row = self.TRANSITIONS.get((self.state, type(given)))
        if row is None:
            raise IllegalInput(f"{type(given).__name__} is not allowed in state {self.state.name}")
        row.emit(self, given)
        self.state = row.next_state

    def take(self, token_ids: Sequence[int] = ()) -> list[Batch]:
        """The events since the last call, in as few batches as the limits allow. All events up to a failure are one
        batch. The last batch before the end of the response gets the token ids."""
        frames, self._frames = self._frames, []
        first = self._next_sequence - len(frames)
        if self.left and self.state in (State.BETWEEN_ITEMS, State.IN_ITEM):
            frames, self._frames = frames[:-1], frames[-1:]
        if self.pause is not None and frames:
            *batches, last = _batches(first, frames, token_ids)
            return [*batches, replace(last, pause=self.pause)]
        if self.final is None or not frames:
            if len(frames) == 1:  # the common case: one token per chunk
                return [Batch(first, 1, frames[0], None, token_ids)]
            return _batches(first, frames, token_ids)
        if self.final.status is Status.FAILED:
            return [Batch(first, len(frames), b"".join(frames), self.final)]
        *before, terminal = frames
        last = Batch(first_sequence=self._next_sequence - 1, count=1, frames=terminal, final=self.final)
        return [*_batches(first, before), last]

    def take_whole(self) -> list[Batch]:
        """The events since the last call, in one batch, however large: whoever continues the response finds all of them
        or none."""
        frames, self._frames = self._frames, []
        first, whole = self._next_sequence - len(frames), b"".join(frames)
        return [Batch(first, len(frames), whole, pause=self.pause)] if frames else []

    def skip_to(self, next_sequence: int) -> None:
        """Drops the events so far, which an earlier translator has sent, and sets the number of the next event."""
        self._frames.clear()
        self._next_sequence = next_sequence

    @property
    def open_item_id(self) -> str | None:
        """The id of the open item."""
        return self._item.id if self._item is not None else None

    @property
    def items(self) -> Sequence[Object]:
        """The items that are closed, their texts as fragments of JSON."""
        items: Sequence[Object] = self._response["output"]
        return items

    def snapshot(self) -> Object:
        """The response so far. It equals the fold of all events so far."""
        written: Object = loads(dumps(self._write_response()))
        return written

    def _write_response(self) -> Object:
        """The response so far, the texts of its items as fragments of JSON."""
        if self._item is None:
            return self._response
        return self._response | {"output": [*self._response["output"], self._item.as_object()]}

    # ---- emitters: one for each row of the table ----

    def _begin(self, given: Begin) -> None:
        begun = Fragment(dumps(self._response))
        self._emit({"type": events.CREATED, "response": begun})
        self._emit({"type": events.IN_PROGRESS, "response": begun})

    def _open(self, given: OpenNext) -> None:
        item_id = new_item_id(self._ids, given.kind.id_prefix, relative=self._response["id"])
        index = len(self._response["output"])
        self._item = OpenItem(given.kind, item_id, output_index=index, members=given.members)
        for build in given.kind.opening:
            self._emit(build(self._item))

    def _append(self, given: Append) -> None:
        assert self._item is not None  # noqa: S101 - in all states of its rows
        self._frames.append(self._item.append(given.text, self._next_sequence))
        self._next_sequence += 1

    def _append_scored(self, given: AppendScored) -> None:
        assert self._item is not None  # noqa: S101 - in all states of its rows
        self._frames.append(self._item.append_scored(given.text, given.logprobs, self._next_sequence))
        self._next_sequence += 1

    def _close(self, given: Close) -> None:
        item = self._item
        assert item is not None  # noqa: S101 - in all states of its rows
        if given.cite is not None:
            item.annotate(given.cite)
        item.close(given.status)
        for number, annotation in enumerate(item.annotations):
            self._emit(annotation_event(item, number, annotation))
        for build in item.kind.closing:
            self._emit(build(item))
        self._closed_bytes += item.size_bytes
        self._response = self._write_response()
        self._item = None

    def _leave(self, _given: Leave) -> None:
        item = self._item
        assert item is not None  # noqa: S101 - in all states of its rows
        item.close("in_progress")
        if item.kind.leaving is not None:
            self._emit(item.kind.leaving(item))
        self._closed_bytes += item.size_bytes
        self._response = self._write_response()
        self._item = None
        self.left += 1

    def _announce(self, given: Announce) -> None:
        output, item = self._response["output"], given.item
        if "id" not in item:
            prefix = ID_PREFIX[item["type"]]
            item = {"id": new_item_id(self._ids, prefix, relative=self._response["id"]), **item}
        for event in announcement(item, len(output)):
            self._emit(event)
        self._response = self._response | {"output": [*output, item]}
        self.left += given.is_left

    def _pause(self, given: Pause) -> None:
        items = dumps(self._response["output"])
        self.pause = RoundEnd(items, given.usage, given.cut_off, given.lineage)

    def _complete(self, given: Complete) -> None:
        members: Object = {"completed_at": given.completed_at}
        if given.diagnostics is not None:
            members["prompt_cache_diagnostics"] = given.diagnostics
        self._end(Status.COMPLETED, given.usage, members, given.lineage)

    def _incomplete(self, given: Incomplete) -> None:
        members: Object = {"incomplete_details": {"reason": given.reason}}
        if given.diagnostics is not None:
            members["prompt_cache_diagnostics"] = given.diagnostics
        self._end(Status.INCOMPLETE, given.usage, members, given.lineage)

    def _fail(self, given: Fail) -> None:
        self._emit(events.error_event(self._next_sequence, given.error))
        self._response = response.fail(self._write_response(), given.error)
        self._item = None
        self._end(Status.FAILED, given.usage, {})

    def _end(self, status: Status, usage: Usage, members: Object, lineage: bytes = b"") -> None:
        counts = response.usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cached_tokens=usage.cached_tokens,
        )
        self._response = self._response | {"status": status.value, "usage": counts} | members
        body, output_items = response.split(self._response)
        ended = self._response | {"output": Fragment(output_items)}
        self._emit({"type": f"response.{status.value}", "response": ended})
        self.final = Final(status=status, body=body, output_items=output_items, lineage=lineage, times=usage.times)

    def _emit(self, event: Object) -> None:
        numbered = {"type": event["type"], "sequence_number": self._next_sequence, **event}
        self._frames.append(events.encode(numbered))
        self._next_sequence += 1

    TRANSITIONS: ClassVar[dict[tuple[State, type[Input]], Transition]] = {
        (State.IDLE, Begin): Transition(_begin, State.BETWEEN_ITEMS),
        (State.BETWEEN_ITEMS, OpenNext): Transition(_open, State.IN_ITEM),
        (State.IN_ITEM, Append): Transition(_append, State.IN_ITEM),
        (State.IN_ITEM, AppendScored): Transition(_append_scored, State.IN_ITEM),
        (State.IN_ITEM, Close): Transition(_close, State.BETWEEN_ITEMS),
        (State.IN_ITEM, Leave): Transition(_leave, State.BETWEEN_ITEMS),
        (State.BETWEEN_ITEMS, Announce): Transition(_announce, State.BETWEEN_ITEMS),
        (State.BETWEEN_ITEMS, Pause): Transition(_pause, State.PAUSED),
        (State.BETWEEN_ITEMS, Complete): Transition(_complete, State.ENDED),
        (State.BETWEEN_ITEMS, Incomplete): Transition(_incomplete, State.ENDED),
        (State.BETWEEN_ITEMS, Fail): Transition(_fail, State.ENDED),
        (State.IN_ITEM, Fail): Transition(_fail, State.ENDED),
    }
    """Every legal input of every state; all others are illegal."""


def _batches(first_sequence: int, frames: list[bytes], token_ids: Sequence[int] = ()) -> list[Batch]:
    batches, at = list[Batch](), 0
    while at < len(frames):
        first = frames[at : at + BATCH_EVENTS_MAX]
        count = _fitting(first)
        at += count
        ids = token_ids if at == len(frames) else ()
        batches.append(Batch(first_sequence + at - count, count, b"".join(first[:count]), token_ids=ids))
    return batches


def _fitting(frames: list[bytes]) -> int:
    """How many of the first frames fit into one batch: at least one."""
    size = 0
    for count, one in enumerate(frames):
        size += len(one)
        if count and size > BATCH_BYTES_MAX:
            return count
    return len(frames)
