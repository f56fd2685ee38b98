"""The rounds of a turn that calls tools of servers (docs/adr/0197).

    lists of tools -> round -> calls? -- none --> the end
                        ^        |
                        |     INTENT is durable, together with the last event of the round
                        |     the calls run
                        '---- each RESULT is durable, together with the events that tell it

A call is sent after its intent is durable, and never a second time: a call whose intent is in the log without a result
may have run. Then its outcome is unknown, the model and the client are told so, and the response goes on. Only a tool
that is declared to be repeatable is called again.

Without an event log the order is the same, and nothing outlives the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from antiphon_core import offload, response
from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.ids import DerivedIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.event_logs import Step, StepKind
from antiphon_core.ports.store import Status
from antiphon_core.ports.tools import CallError, Outcome, ToolCall, ToolResult, Tools
from antiphon_core.ports.translator import NO_USAGE, Batch, Pause, ServerTool, Usage
from antiphon_core.request.server_items import CALL, LISTING, REQUEST, SEARCH
from antiphon_core.telemetry import metrics
from antiphon_edge.tools import approvals, call_ends, server_lists
from antiphon_edge.tools.declared_servers import DeclaredServer
from antiphon_edge.tools.limits import DEFAULT_LIMITS, ToolLimits
from antiphon_edge.tools.server_lists import ServerList
from antiphon_edge.turns import turn_finisher
from antiphon_edge.turns.turn_runner import Generate, TurnRun, discard
from antiphon_edge.turns.web_search import run_search

CALLS = (CALL, SEARCH)
_CLIENTS_TYPES_END = "_call"
_IN_PROGRESS = "in_progress"


@dataclass(frozen=True, slots=True)
class _Round:
    """A round that has ended: the output behind it, the index of its first item, the tokens so far, and when the time
    for tools is over."""

    number: int
    begin: int
    output: list[Object]
    used: Usage
    cut_off: str
    ends_at_ms: int
    lineage: bytes = b""
    """Empty behind a crash: nothing depends on it, and it would be a large part of the journal."""

    def calls_before(self, index: int) -> int:
        """The number of calls before an item of the output."""
        return sum(item.get("type") in CALLS for item in self.output[:index])

    @property
    def open_calls(self) -> list[int]:
        """The indexes of the calls that are to be run."""
        return [
            index
            for index, item in enumerate(self.output)
            if item.get("type") in CALLS and item.get("status") == _IN_PROGRESS
        ]

    @property
    def sent_items(self) -> list[Object]:
        """The calls that are to be run."""
        return [self.output[index] for index in self.open_calls]

    @property
    def waits_for_client(self) -> bool:
        """Whether the model has called tools of the client, too."""
        return any(
            str(item.get("type")).endswith(_CLIENTS_TYPES_END) and item["type"] not in CALLS and _is_whole(item)
            for item in self.output[self.begin :]
        )

    @property
    def waits_for_person(self) -> bool:
        """Whether a call needs an approval."""
        return any(item.get("type") == REQUEST for item in self.output)


def _is_whole(item: Object) -> bool:
    return item.get("status") == "completed" and item.get("async") is not True


class ToolLoop:
    """The rounds of one turn. Use once."""

    def __init__(
        self,
        tools: Tools,
        run: TurnRun,
        generate: Generate,
        *,
        clock: Clock,
        limits: ToolLimits = DEFAULT_LIMITS,
    ) -> None:
        """`generate` runs one round, and returns its last batch."""
        self._tools = tools
        self._run = run
        self._turn = run.accepted.turn
        self._generate = generate
        self._clock = clock
        self._limits = limits
        self._lists: Mapping[str, ServerList] = {}
        self._declared = run.accepted.declared
        self._most_calls = min(self._declared.calls_max or limits.calls, limits.calls)
        self._ends_at_ms = clock.now_ms() + round(1000 * limits.time_s)
        self._numbers_before = 0
        self._is_left = False
        self._serial_servers = dict[str, asyncio.Lock]()

    async def run(self, servers: Sequence[DeclaredServer]) -> Batch:
        """Runs all rounds, and returns the terminal batch.

        Raises:
            InvalidRequest: the request may not use one of the servers.
            Exception: the error of a generation, of the event log, or of the run's interrupt.
        """
        self._lists = await self._run.interrupt.run(server_lists.read_lists(self._tools, self._turn.tenant, servers))
        self._turn = replace(self._turn, approval_tools=self._tools_that_ask())
        self._numbers_before = await offload.run(self._last_number, size_bytes=self._turn.size_bytes)
        last_round = _last_round(self._run)
        if last_round is not None:
            self._ends_at_ms = last_round.ends_at_ms
        output = await self._first_output() if last_round is None else []
        number, used, lineage = 1, NO_USAGE, self._turn.round_lineage
        while True:
            if last_round is None:
                self._run.state.items_before = len(output)
                encoded = await offload.run(partial(dumps, output), size_bytes=self._output_bytes)
                turn = replace(self._turn, output=encoded, used=used, round_lineage=lineage)
                last = await self._generate(turn)
                if last.pause is None:
                    await self._note_asked(last)
                    return last
                last_round = await self._note_intent(last, last.pause, number, begin=len(output))
                output = await self._run.interrupt.run(self._call_all(last_round))
            else:  # another process sent the calls
                output = await self._run.interrupt.run(self._settle(last_round))
            end = await self._end_behind(replace(last_round, output=output))
            if end is not None:
                return end
            number, used, lineage = last_round.number + 1, last_round.used, last_round.lineage
            last_round = None

    @property
    def _output_bytes(self) -> int:
        """About the size of the output so far, with lists of tools that were not sent yet."""
        return self._run.state.fold.size_bytes + sum(each.size_bytes for each in self._lists.values())

    async def _first_output(self) -> list[Object]:
        """The items before the first round: the lists of tools that the conversation does not have, and the calls that
        were approved. Lists that were sent are in the output."""
        state = self._run.state
        lists = [item for item in state.output if item.get("type") == LISTING]
        if state.round_ids:
            return lists
        if not lists:
            lists = await offload.run(self._new_lists, size_bytes=self._turn.size_bytes + self._output_bytes)
        approved, response_id = self._run.approved, self._turn.response_id
        return [*lists, *approvals.first_items(approved, self._lists, response_id, calls_max=self._most_calls)]

    def _new_lists(self) -> list[Object]:
        context = [item for part in (self._turn.history, self._turn.input) for item in _lists_in(part)]
        ids = DerivedIds(f"{self._turn.response_id}/lists")
        return server_lists.new_items(self._lists, context, ids, relative=self._turn.response_id)

    def _last_number(self) -> int:
        """The last number of a search result in the conversation before the response."""
        parts = [part for part in (self._turn.history, self._turn.input) if SEARCH.encode() in part]
        return max((call_ends.last_number(loads(part)) for part in parts), default=0)

    # ---- Approvals ----

    def _tools_that_ask(self) -> Sequence[ServerTool]:
        """The tools whose calls need an approval. InvalidRequest: the response is not stored, so it cannot ask."""
        asking = approvals.tools_that_ask(self._lists)
        if asking and not self._run.accepted.is_stored:
            first, listed = asking[0], self._lists[asking[0].server_label]
            raise InvalidRequest(
                f"Calls of '{first.name}' of '{first.server_label}' need an approval, and a response that is not "
                f"stored cannot ask for one: leave 'store' out{approvals.way_without(listed)}.",
                field=f"{listed.declared.path}.require_approval",
                code="unsupported_value",
            )
        return asking

    async def _note_asked(self, last: Batch) -> None:
        """Notes the approvals that a terminal batch asks for: they are committed with its record."""
        final = last.final
        if final is None or REQUEST.encode() not in final.output_items:
            return
        output = await offload.run(partial(loads, final.output_items), size_bytes=len(final.output_items))
        self._run.accepted = replace(self._run.accepted, asks=approvals.drafts_of(output, self._lists))

    # ---- The journal ----

    async def _note_intent(self, last: Batch, pause: Pause, number: int, *, begin: int) -> _Round:
        """Sends the last events of a round, after the intent to run its calls is durable together with them."""
        items = await offload.run(partial(loads, pause.output_items), size_bytes=len(pause.output_items))
        ends_at_ms = self._ends_at_ms
        ended = _Round(number, begin, items, pause.used, pause.cut_off, ends_at_ms, pause.lineage)
        state = self._run.state
        facts = {
            "begin": begin,
            "items": len(ended.output),
            "ids": len(state.token_ids),
            "used": _counts(pause.used),
            "cut_off": pause.cut_off,
            "ends_at_ms": self._ends_at_ms,
        }
        intent, sends = Step(number, StepKind.INTENT, data=dumps(facts)), approvals.ids_in(ended.sent_items)
        await self._run.record(replace(last, pause=None), [intent], sends)
        return ended

    async def _note_result(self, number: int, item: Object, index: int) -> None:
        """Sends the end of a call, after it is durable."""
        batch = call_ends.end_batch(item, index, self._run.state.next_sequence)
        await self._run.record(batch, [Step(number, StepKind.RESULT, item["id"])])

    # ---- The calls ----

    async def _call_all(self, ended: _Round) -> list[Object]:
        """Runs the calls of a round, and returns the output with their results. Calls run at once where that is
        allowed; their ends are told in the order of the output."""
        indexes = ended.open_calls
        places = asyncio.Semaphore(1 if self._declared.is_serial else self._limits.parallel)
        running = {
            index: asyncio.create_task(
                self._call(ended.output[index], ended.cut_off, self._is_within(ended, index), places)
            )
            for index in indexes
        }
        output = list(ended.output)
        try:
            for index, call in running.items():
                output[index] = self._with_numbers(await asyncio.shield(call), output[:index])
                await self._note_result(ended.number, output[index], index)
        except asyncio.CancelledError:
            if self._run.is_left_by_client:
                await self._finish(ended.number, running)
            raise
        finally:
            for call in running.values():
                call.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)
        return output

    async def _finish(self, number: int, running: Mapping[int, asyncio.Task[Object]]) -> None:
        """Records how the calls end that were sent before the client left. No further one is sent."""
        self._is_left, self._run.receive = True, discard
        await asyncio.wait(running.values(), timeout=self._limits.finish_s)
        for index, call in running.items():
            is_told = self._run.state.output[index]["status"] != _IN_PROGRESS
            if call.done() and not is_told:
                before = self._run.state.output[:index]
                await self._note_result(number, self._with_numbers(call.result(), before), index)

    async def _call(self, item: Object, cut_off: str, is_within: bool, places: asyncio.Semaphore) -> Object:
        """The item of a call with its result."""
        if approvals.is_sent(item, self._run.approved) and not self._may_repeat(item):
            return _end_lost(item)  # by a process whose event log has expired
        if cut_off:
            return call_ends.call_not_run(item, f"the response reached '{cut_off}'")
        if not is_within:
            return call_ends.call_not_run(item, "the response reached 'max_tool_calls'")
        if self._lacks_approval(item):
            return call_ends.call_not_run(item, "it needs an approval, which was not asked for")
        async with self._turn_at(item.get("server_label", "")), places:
            if self._is_left:
                return call_ends.call_not_run(item, "the client has left")
            left_s = (self._ends_at_ms - self._clock.now_ms()) / 1000
            if left_s <= 0:
                return call_ends.call_not_run(item, "the time for tools is over")
            if item["type"] == SEARCH:
                declared, tenant = self._declared.search, self._turn.tenant
                return await run_search(self._tools, tenant, declared, item, timeout_s=left_s)
            result = await self._send(item, left_s)
        return call_ends.ended_call(item, result)

    def _with_numbers(self, item: Object, before: Sequence[Object]) -> Object:
        return call_ends.with_numbers(item, before, behind=self._numbers_before)

    def _lacks_approval(self, item: Object) -> bool:
        """Whether a call needs an approval that the turn does not have. A translator that knows no approvals, of an
        older release, leaves such calls open."""
        if item["type"] == SEARCH or (item["server_label"], item["name"]) not in self._turn.approval_tools:
            return False
        return item.get("approval_request_id") not in {each.id for each in self._run.approved}

    def _turn_at(self, label: str) -> AbstractAsyncContextManager[None]:
        """The turn of a call at its server, if the operator wants that the server gets one call after the other."""
        found = self._lists.get(label)
        if found is None or found.listing.is_parallel:
            return nullcontext()
        return self._serial_servers.setdefault(label, asyncio.Lock())

    async def _send(self, item: Object, timeout_s: float) -> ToolResult:
        found = self._lists.get(item["server_label"])
        tool = found.tools.get(item["name"]) if found is not None else None
        if found is None or tool is None:
            message = f"'{item['server_label']}' has no tool '{item['name']}'."
            return ToolResult(Outcome.REFUSED, error=CallError(-32_602, message))
        call = ToolCall(
            id=f"{self._turn.response_id}/{item['id']}",
            server=found.declared.server,
            tool=tool.name,
            arguments=item["arguments"].encode() or b"{}",
            digest=tool.digest,
            credentials=found.declared.credentials,
            timeout_s=timeout_s,
        )
        try:
            return await self._tools.call_tool(self._turn.tenant, call)
        except AntiphonError as error:  # the call was not begun
            return ToolResult(Outcome.NOT_SENT, error=CallError(0, error.message))

    # ---- After a crash ----

    async def _settle(self, ended: _Round) -> list[Object]:
        """Ends the calls that another process may have sent, and returns the output with their results."""
        output = list(ended.output)
        for index in ended.open_calls:
            item = output[index]
            is_within = self._is_within(ended, index)
            if ended.cut_off or not is_within or self._may_repeat(item):
                item = await self._call(item, ended.cut_off, is_within, asyncio.Semaphore(1))
                output[index] = self._with_numbers(item, output[:index])
            else:
                output[index] = _end_lost(item)
            await self._note_result(ended.number, output[index], index)
        return output

    def _is_within(self, ended: _Round, index: int) -> bool:
        """Whether the request and the operator allow so many calls."""
        return ended.calls_before(index) < self._most_calls

    def _may_repeat(self, item: Object) -> bool:
        if item["type"] == SEARCH:
            return True
        found = self._lists.get(item["server_label"])
        tool = found.tools.get(item["name"]) if found is not None else None
        return tool is not None and tool.is_repeatable and self._clock.now_ms() < self._ends_at_ms

    # ---- The end ----

    async def _end_behind(self, ended: _Round) -> Batch | None:
        """The terminal batch, if no round may follow this one."""
        if (ended.waits_for_client or ended.waits_for_person) and not ended.cut_off:
            members: Object = {"completed_at": self._clock.now_ms() // 1000}
            return await self._end(Status.COMPLETED, ended, members)
        reason = ended.cut_off or self._limit_reached(ended)
        if not reason:
            return None
        return await self._end(Status.INCOMPLETE, ended, {"incomplete_details": {"reason": reason}})

    def _limit_reached(self, ended: _Round) -> str:
        if self._clock.now_ms() >= self._ends_at_ms:
            return "tool_time"
        calls = sum(item.get("type") in CALLS for item in ended.output)
        is_over = ended.number >= self._limits.rounds or calls >= self._limits.calls
        return "max_tool_calls" if is_over else ""

    async def _end(self, status: Status, ended: _Round, members: Object) -> Batch:
        counts = response.usage(**_counts(ended.used))
        fold = self._run.state.fold
        last = await turn_finisher.ending(fold, status, {"usage": counts, **members}, ended.lineage)
        await self._note_asked(last)
        return last


async def run_rounds(
    run: TurnRun, generate: Generate, *, tools: Tools, clock: Clock, limits: ToolLimits = DEFAULT_LIMITS
) -> Batch:
    """Runs all rounds of a turn, and returns its terminal batch. Raises as `ToolLoop.run`."""
    servers = run.accepted.declared.with_credentials(run.accepted.credentials)
    return await ToolLoop(tools, run, generate, clock=clock, limits=limits).run(servers)


def _end_lost(item: Object) -> Object:
    """The item of a call that a lost process may have sent: its outcome is unknown."""
    metrics.LOST_TOOL_CALLS.of().add()
    reason = CallError(0, "the process that sent it was lost")
    return call_ends.ended_call(item, ToolResult(Outcome.UNKNOWN, error=reason))


def _last_round(run: TurnRun) -> _Round | None:
    """The round of the last intent in the event log. All its calls have ended if the round behind it has begun."""
    intents = [step for step in run.state.steps if step.kind is StepKind.INTENT]
    if not intents:
        return None
    facts: Object = loads(intents[-1].data)
    output, used = [*run.state.output[: facts["items"]]], Usage(**facts["used"])
    return _Round(intents[-1].round, facts["begin"], output, used, facts["cut_off"], facts["ends_at_ms"])


def _counts(used: Usage) -> dict[str, int]:
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "cached_tokens": used.cached_tokens or 0,
    }


def _lists_in(items: bytes) -> list[Object]:
    """The lists of tools in a JSON array of items."""
    if LISTING.encode() not in items:
        return []
    return [item for item in loads(items) if item.get("type") == LISTING]
