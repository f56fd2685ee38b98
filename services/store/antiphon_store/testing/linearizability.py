"""Whether a recorded history of concurrent calls could have come from one object that does them one at a time.

    violation = find_violation(operations, models)       # None: it could

This module owns the search alone: it never calls a store, reads a clock or uses randomness.
`antiphon_store.testing.histories` records; `antiphon_store.testing.sequential_models` says what one object does. A
history has of each operation when it was invoked, when it returned (any numbers that order these moments), and what it
answered. UNKNOWN as the answer means that the caller learned nothing, as after a timeout: the operation may have
happened at any moment from its invocation on, or never.

A history is linearizable when every operation can be given one moment between its invocation and its return at which it
happens, such that the answers are those of a sequential object (Herlihy and Wing, TOPLAS 1990). Keys are independent,
and it is enough to look at each key by itself. The search is that of Wing and Gong (JPDC 1993), in the just-in-time
form with memoisation of Lowe (Concurrency and Computation 29(4), 2017): time is swept once, and an operation is given
its moment only when some operation's return demands it. What is carried along is a set of configurations: a state, and
which of the open operations have happened in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNKNOWN = "unknown"

Step = Callable[..., tuple[Any, Any]]  # (state, **arguments) -> (next state, answer)


@dataclass(frozen=True, slots=True)
class Operation:
    """One call on one key. `returned` does not matter when `answer` is UNKNOWN."""

    key: tuple[str, str]  # which model, and which object
    name: str
    arguments: Mapping[str, Any]
    invoked: float
    returned: float
    answer: Any


@dataclass(frozen=True, slots=True)
class Model:
    """A sequential object: where it begins, and its steps by name. States are hashable; a refusal is an answer."""

    initial: Hashable
    steps: Mapping[str, Step]

    def apply(self, state: Hashable, operation: Operation) -> tuple[Hashable, Any]:
        return self.steps[operation.name](state, **operation.arguments)


@dataclass(frozen=True, slots=True)
class Violation:
    """The first operation whose answer no order explains, the possible states before it, and what overlaps with it."""

    operation: Operation
    states: Sequence[Hashable]
    overlapping: Sequence[Operation]

    def __str__(self) -> str:
        lines = [f"no order explains {self.operation}", f"possible states: {list(self.states)}", "overlapping:"]
        return "\n  ".join([*lines, *map(str, self.overlapping)])


_Configuration = tuple[Hashable, frozenset[int]]  # the state, and which open operations have happened


def find_violation(history: Iterable[Operation], models: Mapping[str, Model]) -> Violation | None:
    """The first violation of a history of many keys. The first part of a key names its model."""
    by_key: dict[tuple[str, str], list[Operation]] = {}
    for operation in history:
        by_key.setdefault(operation.key, []).append(operation)
    found = (_find_in(operations, models[kind]) for (kind, _), operations in by_key.items())
    return next((violation for violation in found if violation is not None), None)


def _find_in(operations: Sequence[Operation], model: Model) -> Violation | None:
    """Sweeps the invocations and returns of one key in order of time."""
    open_: set[int] = set()
    configurations: set[_Configuration] = {(model.initial, frozenset())}
    for _, is_return, number in _moments(operations):
        if not is_return:
            open_.add(number)
            continue
        before = configurations
        configurations = _after_return(operations, model, configurations, open_, number)
        if not configurations:
            overlapping = [operations[each] for each in sorted(open_ - {number})]
            return Violation(operations[number], sorted({state for state, _ in before}, key=repr), overlapping)
        open_.discard(number)
    return None


def _moments(operations: Sequence[Operation]) -> list[tuple[float, bool, int]]:
    """(time, whether it is a return, operation) in order; at one moment invocations come first, so that operations
    that touch count as overlapping. What is UNKNOWN never returns."""
    invocations = [(each.invoked, False, number) for number, each in enumerate(operations)]
    returns = [(each.returned, True, number) for number, each in enumerate(operations) if each.answer != UNKNOWN]
    return sorted(invocations + returns)


def _after_return(
    operations: Sequence[Operation], model: Model, before: set[_Configuration], open_: set[int], number: int
) -> set[_Configuration]:
    """All configurations in which the operation has happened: it had before, or it does now, behind as many of the
    other open operations as that takes. It is taken out of them, for it can happen no more."""
    after: set[_Configuration] = set()
    waiting, seen = list(before), set(before)
    while waiting:
        state, happened = waiting.pop()
        if number in happened:
            after.add((state, happened - {number}))
            continue
        for each in open_ - happened:
            next_state, answer = model.apply(state, operations[each])
            recorded = operations[each].answer
            if recorded == UNKNOWN:
                if next_state == state:  # whether it happened here makes no difference to anybody
                    continue
            elif recorded != answer:
                continue
            configuration = (next_state, happened | {each})
            if configuration not in seen:
                seen.add(configuration)
                waiting.append(configuration)
    return after
