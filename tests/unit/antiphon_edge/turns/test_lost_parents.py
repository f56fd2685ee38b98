from __future__ import annotations

import pytest

from antiphon_core.errors import AntiphonError, ResponseNotFound, TooLarge
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.translator import Turn
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.lost_parents import committed

PARENT_ID = new_response_id(RandomIds())
TURN = Turn(new_response_id(RandomIds(), relative=PARENT_ID), 1, b"{}", history=b'[{"id":"a"}]', input=b'[{"id":"b"}]')
CHILD = AcceptedTurn("t", TURN, parent_id=PARENT_ID)


class Store:
    """A store whose commits raise the given errors, and then succeed. Keeps the turns."""

    def __init__(self, *errors: AntiphonError) -> None:
        self.errors = list(errors)
        self.tried: list[AcceptedTurn] = []

    async def commit(self, accepted: AcceptedTurn) -> None:
        self.tried.append(accepted)
        if self.errors:
            raise self.errors.pop(0)


async def test_a_turn_with_its_parent_is_committed_once() -> None:
    store = Store()
    assert await committed(CHILD, store.commit) == CHILD
    assert store.tried == [CHILD]


async def test_turn_whose_parent_is_gone_is_committed_as_a_root() -> None:
    store = Store(ResponseNotFound.of(PARENT_ID))
    root = await committed(CHILD, store.commit)
    assert store.tried == [CHILD, root]
    assert (root.parent_id, root.turn.history, root.turn.input) == (None, b"[]", b'[{"id":"a"},{"id":"b"}]')


@pytest.mark.parametrize(
    ("accepted", "errors"),
    [
        (CHILD.as_root(), [ResponseNotFound.of(PARENT_ID)]),
        (CHILD, [ResponseNotFound.of(TURN.response_id)]),
        (CHILD, [ResponseNotFound.of(PARENT_ID), TooLarge("too much")]),
    ],
    ids=["a root", "another response", "too large as a root"],
)
async def test_error_that_committing_a_root_cannot_avoid_is_raised(
    accepted: AcceptedTurn, errors: list[AntiphonError]
) -> None:
    store = Store(*errors)
    with pytest.raises(type(errors[-1])):
        await committed(accepted, store.commit)
    assert len(store.tried) == len(errors)
