"""What the memory engine finds besides ids: the responses of a session, and those that an item is in."""

from __future__ import annotations

from collections.abc import Collection

from antiphon_store.backends.base import Write

_Key = tuple[str, str]  # tenant, response id
_Name = tuple[str, str, str]  # tenant, what it is, its id


class Catalogue:
    """Keys of responses under names. Whoever stores a response files it; whoever drops one takes it out."""

    def __init__(self) -> None:
        self._keys: dict[_Name, dict[_Key, None]] = {}
        self._names: dict[_Key, set[_Name]] = {}

    def file(self, tenant: str, write: Write) -> None:
        """Files what is stored now of a response, in place of what was."""
        key = (tenant, write.record.id)
        self.drop(key)
        names = {(tenant, "item", item_id) for item_id in write.item_ids}
        if write.record.session_id is not None:
            names.add((tenant, "session", write.record.session_id))
        self._names[key] = names
        for name in names:
            self._keys.setdefault(name, {})[key] = None

    def drop(self, key: _Key) -> None:
        for name in self._names.pop(key, ()):
            keys = self._keys[name]
            del keys[key]
            if not keys:
                del self._keys[name]

    def of_session(self, tenant: str, session_id: str) -> Collection[_Key]:
        return self._keys.get((tenant, "session", session_id), {})

    def of_item(self, tenant: str, item_id: str) -> Collection[_Key]:
        return self._keys.get((tenant, "item", item_id), {})
