from __future__ import annotations

from redis.crc import key_slot

from antiphon_store.backends.redis import keys
from antiphon_store.rows.model import Index, Partition

PARTITION = Partition("acme", "0123456789abcdef")


def slot(key: str) -> int:
    return int(key_slot(key.encode()))


def test_a_partition_and_its_indexes_share_a_slot() -> None:
    root = keys.root(PARTITION)
    assert root == "antiphon:{acme:0123456789abcdef}"
    assert slot(root) == slot(f"{root}:node") == slot(keys.entries(PARTITION, Index.MADE, "conv}_1"))


def test_an_entry_of_a_tenant_lies_at_the_same_place_from_every_tree() -> None:
    names = {keys.entries(PARTITION._replace(tree=tree), Index.FOREIGN, "item") for tree in ("one", "two")}
    assert names == {"antiphon:{acme:foreign:item}"}


def test_no_name_forges_the_place_of_another() -> None:
    forged = [Partition("acme:x", "y"), Partition("acme", "x:y"), Partition("acme}", "x:y"), Partition("acme", "x}{y")]
    names = [keys.root(each) for each in forged]
    names += [keys.tenant_wide("acme", Index.QUEUE, "a:b"), keys.root(Partition("acme", "queue:a:b"))]
    assert len(set(names)) == len(names)
    assert all((name.count("{"), name.count("}")) == (1, 1) for name in names)


def test_a_key_may_have_characters_that_no_text_has() -> None:
    assert keys.tenant_wide("acme", Index.FOREIGN, "\ud800").isascii()
