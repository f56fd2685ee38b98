"""Prompts of coming turns that are read in advance, where the template will rewrite the history.

Most prompts continue what the engine has in its cache. A template that leaves out the reasoning of earlier answers
does not: behind an answer the next prompt has everything since the user's last message anew, and its user waits for
it. So the part of that prompt that is known is read while the user thinks.

Off unless `prewarm_tokens_per_minute` of the model's profile gives each tenant a budget. The request goes where the
next turn will go, with its salt, at the lowest priority, and only if no other prompt waits there. The next turn of the
tree ends it, as do a turn that needs the memory, and the end of the process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import eq

from antiphon_core import offload
from antiphon_core.errors import AntiphonError, for_log
from antiphon_core.flow import Flow
from antiphon_core.ids import tree_tag
from antiphon_core.jsons import dumps, join_arrays, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import NO_ITEMS, NO_USAGE, Final, Turn
from antiphon_core.telemetry import metrics, remedies
from antiphon_translator.engines.base import Engine
from antiphon_translator.generation import EngineChunk, GenerationRequest, TokenPrompt
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.turn.cache_retention import Hint, is_one_shot
from antiphon_translator.turn.turn_plan import TurnPlan
from antiphon_translator.turn.turn_prompt import TurnPrompt
from antiphon_translator.turn_bytes import TurnBytes

log = logging.getLogger(__name__)

TOKENS_MIN = 512
"""Fewer new tokens are not worth a request: 30 ms of prefill."""
RUNNING_MAX = 32
"""Prompts that one process reads in advance at once."""
RUNNING_PER_TENANT_MAX = 8
TENANTS_MAX = 4_096
LOWEST_PRIORITY = 0
_TEXTS = ("A", "7")
"""Two messages of a user that begin with different tokens: what their prompts have in common, all next prompts have."""


class Prewarms:
    """The prompts that one process reads in advance. Use inside one event loop."""

    def __init__(self, turn_bytes: TurnBytes, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        """`turn_bytes` counts the turns whose next prompt is read, as their histories stay in memory, until a turn
        needs the room."""
        self._turn_bytes = turn_bytes
        self._budgets = PrewarmBudgets(monotonic_s=monotonic_s)
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """By the trees of their turns."""
        self._running = Counter[str]()
        """How many of them each tenant has."""
        self._is_closed = False

    def end(self, turn: Turn) -> None:
        """Ends the reading for the tree of this turn."""
        if (task := self.tasks.get(tree_tag(turn.response_id) or "")) is not None:
            task.cancel()

    def begin(self, turn: Turn, plan: TurnPlan, final: Final | None, engine: Engine) -> None:
        """Begins to read the prompt of the turn that follows, behind one that ended with `final`."""
        tree = tree_tag(turn.response_id)
        if tree is None or final is None or final.status is not Status.COMPLETED or not _has_next(turn, plan):
            return
        if self._is_closed or len(self.tasks) >= RUNNING_MAX or tree in self.tasks:
            return
        if self._running[turn.tenant] >= RUNNING_PER_TENANT_MAX:
            return

        def leave(_: asyncio.Task[None]) -> None:
            del self.tasks[tree]
            self._running -= Counter([turn.tenant])

        self._running[turn.tenant] += 1
        task = self.tasks[tree] = asyncio.create_task(self._read(turn, plan, final, engine))
        task.add_done_callback(leave)

    async def close(self) -> None:
        """Ends all at once: nothing waits for a prompt whose turn has not come."""
        self._is_closed = True
        tasks = list(self.tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _read(self, turn: Turn, plan: TurnPlan, final: Final, engine: Engine) -> None:
        outcome = "failed"
        try:
            with self._turn_bytes.count_spare(turn, partial(self.end, turn)) as has_room:
                outcome = await self._outcome(turn, plan, final, engine) if has_room else "busy"
        except asyncio.CancelledError:
            outcome = "cancelled"
        except AntiphonError as error:
            log.info("the next prompt behind %s was not read in advance: %s", turn.response_id, for_log(error))
        except Exception:
            log.exception("the next prompt behind %s was not read in advance", turn.response_id, extra=remedies.REPORT)
        finally:
            if outcome:
                metrics.PREWARMS.of(plan.model.name, outcome).add()

    async def _outcome(self, turn: Turn, plan: TurnPlan, final: Final, engine: Engine) -> str:
        if self._budgets.tokens_of(turn.tenant, plan.model) < TOKENS_MIN:
            return "over_share"
        make = partial(next_request, turn, plan, final)
        found = await offload.run(make, size_bytes=turn.size_bytes + len(final.output_items), inline_bytes_max=0)
        if found is None:
            return ""
        if not self._budgets.take(turn.tenant, plan.model, found.new_tokens):
            return "over_share"
        has_begun = is_over = False

        def deliver(_chunks: Sequence[EngineChunk]) -> bool:
            nonlocal has_begun
            has_begun = True
            return False

        try:
            await engine.generate(found.request, deliver, Flow())
            is_over = True
        except AntiphonError:
            is_over = True
            raise
        finally:
            if is_over and not has_begun:  # a prompt whose reading is cancelled may be read for the most part
                self._budgets.give_back(turn.tenant, plan.model, found.new_tokens)
        return "read" if has_begun else "busy"


def _has_next(turn: Turn, plan: TurnPlan) -> bool:
    """Whether the prompt behind a turn may be read in advance: its engine takes token ids, and the turn is neither one
    that nothing continues nor one whose prompt is not worth keeping."""
    model, prompt = plan.model, plan.prompt
    if not model.prewarm_tokens_per_minute or not model.can_reason or prompt.conversation.images:
        return False
    if not isinstance(plan.request.prompt, TokenPrompt) or any(hint is Hint.LOW for hint, _ in plan.cache.outcomes):
        return False
    return not is_one_shot(turn, plan.parameters, prompt)


@dataclass(frozen=True, slots=True)
class NextRequest:
    """The request that reads the known part of the next prompt, of which `new_tokens` are in no cache."""

    request: GenerationRequest
    new_tokens: int


def next_request(turn: Turn, plan: TurnPlan, final: Final, *, tokens_min: int = TOKENS_MIN) -> NextRequest | None:
    """The request for the prompt behind a turn that ended. None: the prompt continues this one, or is not known yet."""
    items = loads(final.output_items)
    if not items or items[-1].get("type") != "message":
        return None
    one, other = (_prompt(turn, plan, final, text) for text in _TEXTS)
    common = _common(one.ids, other.ids)
    hints = one.ancestors.hints(common)
    new_tokens = len(common) - max((hint.tokens for hint in hints), default=0)
    if not hints or new_tokens < tokens_min:
        return None
    request = replace(
        plan.request,
        request_id=f"{plan.request.request_id}_prewarm",
        prompt=TokenPrompt(common),
        prompt_tokens=len(common),
        placement=hints,
        max_tokens=1,
        stop=(),
        guide=None,
        top_logprobs=None,
        priority=LOWEST_PRIORITY,
        retention=None,
        is_prewarm=True,
    )
    return NextRequest(request, new_tokens)


def _prompt(turn: Turn, plan: TurnPlan, final: Final, text: str) -> TurnPrompt:
    """The prompt of the next turn if its user writes this."""
    message = {"id": "msg_next", "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    following = replace(
        turn,
        history=join_arrays([turn.history, turn.input, final.output_items]),
        input=dumps([message]),
        lineages=(*turn.lineages, final.lineage),
        output=NO_ITEMS,
        used=NO_USAGE,
        round_lineage=b"",
    )
    return TurnPrompt.of(plan.model, following, plan.parameters)


def _common(one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
    """The beginning that both have."""
    shorter = min(len(one), len(other))
    return one[: next((place for place, same in enumerate(map(eq, one, other)) if not same), shorter)]


class PrewarmBudgets:
    """The tokens that each tenant may have read in advance: a bucket for each tenant and model, full for a minute."""

    def __init__(self, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = monotonic_s
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """The tokens that were left, and when."""

    def take(self, tenant: str, model: ServedModel, tokens: int) -> bool:
        """Takes tokens from the budget of a tenant. Returns False, and takes none, if they are not there."""
        left = self.tokens_of(tenant, model)
        if tokens > left:
            return False
        self._set(tenant, model, left - tokens)
        return True

    def give_back(self, tenant: str, model: ServedModel, tokens: int) -> None:
        """Gives back tokens that were taken, and not read."""
        self._set(tenant, model, self.tokens_of(tenant, model) + tokens)

    def tokens_of(self, tenant: str, model: ServedModel) -> float:
        """The tokens that a tenant may have read now."""
        most, now_s = float(model.prewarm_tokens_per_minute), self._now_s()
        left, at_s = self._left.get((tenant, model.name), (most, now_s))
        return min(most, left + most * (now_s - at_s) / 60)

    def _set(self, tenant: str, model: ServedModel, tokens: float) -> None:
        key = (tenant, model.name)
        self._left[key] = (tokens, self._now_s())
        self._left.move_to_end(key)
        if len(self._left) > TENANTS_MAX:
            self._left.popitem(last=False)
