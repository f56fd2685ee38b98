from __future__ import annotations

import inspect
from unittest.mock import MagicMock

import pytest

from antiphon_core.errors import Unimplemented
from antiphon_store.backends import unimplemented
from antiphon_store.backends.roles.conversations import ConversationAtoms
from antiphon_store.backends.roles.event_logs import EventLogAtoms
from antiphon_store.backends.roles.idempotency import IdempotencyAtoms
from antiphon_store.backends.roles.jobs import JobAtoms
from antiphon_store.backends.roles.retention import RetentionAtoms

LACKING = [cls for name, cls in inspect.getmembers(unimplemented, inspect.isclass) if name.endswith("NotYet")]
ATOMS = [(cls, name) for cls in LACKING for name, _ in inspect.getmembers(cls, inspect.iscoroutinefunction)]


@pytest.mark.parametrize(("lacking", "atom"), ATOMS)
async def test_an_atom_that_is_lacking_says_so(lacking: type, atom: str) -> None:
    method = getattr(lacking(), atom)
    arguments = {name: MagicMock() for name in inspect.signature(method).parameters}
    with pytest.raises(Unimplemented, match="on this store's engine is not implemented"):
        await method(**arguments)


def test_every_atom_of_these_topics_is_there() -> None:
    assert isinstance(unimplemented.ConversationsNotYet(), ConversationAtoms)
    assert isinstance(unimplemented.IdempotencyNotYet(), IdempotencyAtoms)
    assert isinstance(unimplemented.EventLogNotYet(), EventLogAtoms)
    assert isinstance(unimplemented.JobNotYet(), JobAtoms)
    assert isinstance(unimplemented.RetentionNotYet(), RetentionAtoms)
