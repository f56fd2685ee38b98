"""Checks that a recorded history of concurrent calls is linearizable.

    violation = find_violation(operations, models)       # None: it is linearizable

This module only searches: it calls no store, reads no clock and uses no randomness. `antiphon_store.testing.histories`
records histories; `antiphon_store.testing.sequential_models` has the models. A history has, for each operation, the
moments of its invocation and return (any numbers that order them) and its answer. The answer UNKNOWN means that the
caller got none, as after a timeout: the operation may have happened at any moment after its invocation, or never.

A history is linearizable when every operation can be given one moment between its invocation and its return at which it
happens, such that the answers are those of a sequential object (Herlihy and Wing, TOPLAS 1990). Keys are independent,
and it is enough to look at each key by itself. The search is that of Wing and Gong (JPDC 1993), in the just-in-time
form with memoisation of Lowe (Concurrency and Computation 29(4), 2017): the moments are visited once in order, and an
operation is given its moment only when the return of some operation requires it. The search keeps a set of
configurations: a state, and the open operations that have happened in it. A passive operation, such as a read, changes
no state: it happens in the first configuration that has its answer. Without this rule a search through many open reads
tries every subset of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNKNOWN = "unknown"

Step = Callable[..., tuple[Any, Any]]  # (state, **arguments) -> (next state, answer)


@dataclass(frozen=True, slots=True)
class Operation:
    """One call on one key. `returned` is ignored if `answer` is UNKNOWN."""

    key: tuple[str, str]  # the name of the model, and the object
    name: str
    arguments: Mapping[str, Any]
    invoked: float
    returned: float
    answer: Any


@dataclass(frozen=True, slots=True)
class Model:
    """A sequential object: its initial state, and its steps by name. An error is an answer, too.

    `is_passive`: whether an operation with its recorded answer leaves every state unchanged.
    """

    initial: Hashable
    steps: Mapping[str, Step]
    is_passive: Callable[[Operation], bool]

    def apply(self, state: Hashable, operation: Operation) -> tuple[Hashable, Any]:
        return self.steps[operation.name](state, **operation.arguments)


@dataclass(frozen=True, slots=True)
class Violation:
    """The first operation whose answer no order explains, the possible states before it, and overlapping operations."""

    operation: Operation
    states: Sequence[Hashable]
    overlapping: Sequence[Operation]

    def __str__(self) -> str:
        lines = [f"no order explains {self.operation}", f"possible states: {list(self.states)}", "overlapping:"]
        return "\n  ".join([*lines, *map(str, self.overlapping)])


_Configuration = tuple[Hashable, frozenset[int]]  # a state, and the open operations that have happened


def find_violation(history: Iterable[Operation], models: Mapping[str, Model]) -> Violation | None:
    """The first violation of a history of many keys. The first part of a key names its model."""
    by_key: dict[tuple[str, str], list[Operation]] = {}
    for operation in history:
        by_key.setdefault(operation.key, []).append(operation)
    found = (_find_in(operations, models[kind]) for (kind, _), operations in by_key.items())
    return next((violation for violation in found if violation is not None), None)


def _find_in(operations: Sequence[Operation], model: Model) -> Violation | None:
    """Visits the invocations and returns of one key in order."""
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
    """(moment, whether it is a return, operation) in order; of equal moments invocations come first, so that operations
    that touch count as overlapping. UNKNOWN operations never return."""
    invocations = [(each.invoked, False, number) for number, each in enumerate(operations)]
    returns = [(each.returned, True, number) for number, each in enumerate(operations) if each.answer != UNKNOWN]
    return sorted(invocations + returns)


def _after_return(
    operations: Sequence[Operation], model: Model, before: set[_Configuration], open_: set[int], number: int
) -> set[_Configuration]:
    """All configurations in which the operation has happened: before, or now, after some of the other open operations.
    The operation is removed from them, because it is no longer open."""
    after: set[_Configuration] = set()
    passive = {each for each in open_ if model.is_passive(operations[each])}
    seen = {_with_passive(operations, model, configuration, passive) for configuration in before}
    waiting = list(seen)
    while waiting:
        state, happened = waiting.pop()
        if number in happened:
            after.add((state, happened - {number}))
            continue
        for each in open_ - passive - happened:
            next_state, answer = model.apply(state, operations[each])
            recorded = operations[each].answer
            if recorded == UNKNOWN:
                if next_state == state:  # the same configuration without the operation covers this one
                    continue
            elif recorded != answer:
                continue
            configuration = _with_passive(operations, model, (next_state, happened | {each}), passive)
            if configuration not in seen:
                seen.add(configuration)
                waiting.append(configuration)
    return after


def _with_passive(
    operations: Sequence[Operation], model: Model, configuration: _Configuration, passive: set[int]
) -> _Configuration:
    """The configuration after all passive operations that get their recorded answer in its state.

    The search may continue from this configuration alone: the passive operations change no state, so every order that
    explains the rest of the history after `configuration` also explains it after this one."""
    state, happened = configuration
    answers = {each: operations[each].answer for each in passive - happened}
    return state, happened.union(
        each for each, answer in answers.items() if model.apply(state, operations[each])[1] == answer
    )
