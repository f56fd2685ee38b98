"""The search for a sequential order that explains a history."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon_store.testing.linearizability import UNKNOWN, Operation, find_violation
from antiphon_store.testing.sequential_models import MODELS

KEY, LEASE = ("response", "r"), ("lease", "s")


def put(content: str, at: tuple[float, float], answer: Any, expected: int | None = None) -> Operation:
    arguments = {"status": "completed", "content": content, "expected": expected}
    return Operation(KEY, "put", arguments, *at, answer)


def get(at: tuple[float, float], version: int, content: str) -> Operation:
    return Operation(KEY, "get", {}, *at, (version, "completed", content))


def missing(at: tuple[float, float]) -> Operation:
    return Operation(KEY, "get", {}, *at, "ResponseNotFound")


def delete(at: tuple[float, float], answer: Any = None) -> Operation:
    return Operation(KEY, "delete", {"expected": None}, *at, answer)


def acquire(holder: str, at: tuple[float, float], answer: Any) -> Operation:
    return Operation(LEASE, "acquire", {"holder": holder}, *at, answer)


def release(token: int, at: tuple[float, float], answer: Any) -> Operation:
    return Operation(LEASE, "release", {"token": token}, *at, answer)


LINEARIZABLE: dict[str, list[Operation]] = {
    "no operations": [],
    "one after the other": [put("a", (0, 1), 1), get((2, 3), 1, "a"), delete((4, 5)), missing((6, 7))],
    "a read beside a write sees the old": [put("a", (0, 9), 1), missing((1, 2))],
    "a read beside a write sees the new": [put("a", (0, 9), 1), get((1, 2), 1, "a")],
    "a read during a later write sees its value": [put("a", (0, 1), 1), put("b", (2, 9), 2, 1), get((3, 4), 2, "b")],
    "the later answer happened first": [
        put("a", (0, 9), "AlreadyExists"), put("b", (1, 8), 1), get((2, 3), 1, "b"),
    ],
    "one conditional write wins": [put("a", (0, 1), 1), put("b", (2, 5), 2, 1), put("c", (2, 5), "VersionMismatch", 1)],
    "a repeated write": [put("a", (0, 1), 1), put("a", (2, 3), 1)],
    "touching intervals overlap": [put("a", (0, 1), 1), missing((1, 2))],
    "keys are independent": [put("a", (0, 1), 1), replace(missing((2, 3)), key=("response", "other"))],
    "an unknown that happened": [put("a", (0, 1), UNKNOWN), get((2, 3), 1, "a")],
    "an unknown that did not happen": [put("a", (0, 1), UNKNOWN), missing((2, 3))],
    "an unknown that happens late": [put("a", (0, 1), UNKNOWN), missing((2, 3)), get((4, 5), 1, "a")],
    "the second of two unknown writes happened": [
        put("a", (0, 1), UNKNOWN), put("b", (0, 1), UNKNOWN), get((2, 3), 1, "b"),
    ],
    "a released lease goes to another holder": [
        acquire("a", (0, 1), 1), acquire("b", (2, 3), "SessionLocked"), release(1, (4, 5), True),
        release(1, (6, 7), False), acquire("b", (8, 9), 2),
    ],
    "an unknown release frees": [
        acquire("a", (0, 1), 1), release(1, (2, 3), UNKNOWN), acquire("b", (4, 5), "SessionLocked"),
        acquire("b", (6, 7), 2),
    ],
}  # fmt: skip

VIOLATIONS: dict[str, list[Operation]] = {
    "a stale read after an acknowledged write": [
        put("a", (0, 1), 1), put("b", (2, 3), 2, 1), get((4, 5), 1, "a"),
    ],
    "a read that goes back": [put("a", (0, 9), 1), get((1, 2), 1, "a"), missing((3, 4))],
    "a lost write": [put("a", (0, 1), 1), missing((2, 3))],
    "a lost update": [
        put("a", (0, 1), 1), put("b", (2, 5), 2, 1), put("c", (2, 5), 3, 2), get((6, 7), 2, "b"),
    ],
    "two winners of one comparison": [put("a", (0, 1), 1), put("b", (2, 5), 2, 1), put("c", (2, 5), 2, 1)],
    "no conditional write wins": [put("a", (0, 1), 1), put("b", (2, 5), "VersionMismatch", 1), get((6, 7), 1, "a")],
    "deleted and still there": [put("a", (0, 1), 1), delete((2, 3)), get((4, 5), 1, "a")],
    "deleted by two": [put("a", (0, 1), 1), delete((2, 5)), delete((2, 5))],
    "a value that nobody wrote": [put("a", (0, 1), 1), get((2, 3), 1, "b")],
    "a read from the future": [get((0, 1), 1, "a"), put("a", (2, 3), 1)],
    "an unknown cannot happen before it was asked": [get((0, 1), 1, "a"), put("a", (2, 3), UNKNOWN)],
    "an unknown happens once": [
        put("a", (0, 1), UNKNOWN), get((2, 3), 1, "a"), delete((4, 5)), get((6, 7), 1, "a"),
    ],
    "a token used again": [acquire("a", (0, 1), 1), release(1, (2, 3), True), acquire("b", (4, 5), 1)],
    "a token given to two": [acquire("a", (0, 9), 1), acquire("b", (0, 9), 1)],
    "two holders": [acquire("a", (0, 1), 1), acquire("b", (2, 3), 2)],
    "released and still locked": [
        acquire("a", (0, 1), 1), release(1, (2, 3), True), acquire("b", (4, 5), "SessionLocked"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_a_history_that_some_order_explains_is_accepted(name: str) -> None:
    history = LINEARIZABLE[name]
    for order in (history, history[::-1]):  # the order of recording does not matter
        assert find_violation(order, MODELS) is None


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_history_that_no_order_explains_is_rejected(name: str) -> None:
    history = VIOLATIONS[name]
    for order in (history, history[::-1]):
        assert find_violation(order, MODELS) is not None


def test_a_violation_names_its_operation_overlaps_and_possible_states() -> None:
    wrong, beside = get((4, 5), 1, "a"), put("c", (3, 9), 3, 2)
    violation = find_violation([put("a", (0, 1), 1), put("b", (2, 3), 2, 1), wrong, beside], MODELS)
    assert violation is not None
    assert (violation.operation, violation.overlapping) == (wrong, [beside])
    assert violation.states == [(2, "completed", "b")]
    assert "'b'" in str(violation)


# ---- Histories made from a sequential run ----

CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "response": [
        *(("put", {"status": "completed", "content": c, "expected": e}) for c in "abc" for e in (None, 0, 1, 2, 3)),
        ("get", {}), ("get", {}), ("update_status", {"status": "failed", "expected": None}),
        ("delete", {"expected": None}), ("delete", {"expected": 2}),
    ],
    "lease": [
        *(("acquire", {"holder": holder}) for holder in "abc"), *(("release", {"token": n}) for n in (1, 2, 3)),
        ("renew", {"token": 1}), ("describe", {}), ("describe", {}),
    ],
}  # fmt: skip


def sequential_run(kind: str, dice: random.Random, length: int) -> list[Operation]:
    """A history of operations that ran one at a time; each interval is drawn around its moment, so neighbours
    overlap."""
    state, history = MODELS[kind].initial, []
    for moment in range(length):
        name, arguments = dice.choice(CALLS[kind])
        state, answer = MODELS[kind].steps[name](state, **arguments)
        at = (moment - 3 * dice.random(), moment + 3 * dice.random())
        history.append(Operation((kind, "x"), name, arguments, *at, answer))
    return history


seeds, kinds, lengths = st.integers(0, 2**32), st.sampled_from(list(CALLS)), st.integers(1, 40)


@given(kinds, seeds, lengths, st.floats(0, 0.3))
def test_a_history_of_a_sequential_run_is_accepted(kind: str, seed: int, length: int, forgotten: float) -> None:
    dice = random.Random(seed)
    history = [
        replace(each, answer=UNKNOWN) if dice.random() < forgotten and length < 20 else each
        for each in sequential_run(kind, dice, length)
    ]
    dice.shuffle(history)
    assert find_violation(history, MODELS) is None


@given(kinds, seeds, lengths, st.data())
def test_an_impossible_answer_is_detected(kind: str, seed: int, length: int, data: st.DataObject) -> None:
    """One answer is replaced by one that no operation ever gets. The search may also report an operation that overlaps
    the changed one, returned before it, and needs its effect."""
    history = sequential_run(kind, random.Random(seed), length)
    number = data.draw(st.integers(0, length - 1))
    history[number] = replace(history[number], answer=(99, "never"))
    violation = find_violation(history, MODELS)
    assert violation is not None
    assert violation.operation.returned <= history[number].returned
    assert violation.operation.returned >= history[number].invoked


@given(kinds, seeds, st.integers(2, 12), st.data())
def test_the_search_agrees_with_trying_every_order(kind: str, seed: int, length: int, data: st.DataObject) -> None:
    """Two answers are swapped. Brute force decides whether an order explains the result."""
    history = sequential_run(kind, random.Random(seed), min(length, 7))
    one, other = (data.draw(st.integers(0, len(history) - 1)) for _ in range(2))
    assume(history[one].answer != history[other].answer)
    swapped = list(history)
    swapped[one] = replace(history[one], answer=history[other].answer)
    swapped[other] = replace(history[other], answer=history[one].answer)
    assert (find_violation(swapped, MODELS) is None) == can_be_ordered(swapped, kind)


def can_be_ordered(history: Sequence[Operation], kind: str) -> bool:
    """Tries every order: the definition of linearizability."""
    model = MODELS[kind]

    def search(state: Any, left: list[Operation]) -> bool:
        if not left:
            return True
        first_return = min(each.returned for each in left)
        for each in left:
            next_state, answer = model.steps[each.name](state, **each.arguments)
            if each.invoked <= first_return and answer == each.answer:
                rest = [other for other in left if other is not each]
                if search(next_state, rest):
                    return True
        return False

    return search(model.initial, list(history))
