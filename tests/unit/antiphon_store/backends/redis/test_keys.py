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


def test_a_tenant_wide_index_has_one_key_for_all_trees() -> None:
    names = {keys.entries(PARTITION._replace(tree=tree), Index.FOREIGN, "item") for tree in ("one", "two")}
    assert names == {"antiphon:{acme:foreign:item}"}


def test_names_with_delimiters_cannot_produce_the_key_of_another_partition() -> None:
    forged = [Partition("acme:x", "y"), Partition("acme", "x:y"), Partition("acme}", "x:y"), Partition("acme", "x}{y")]
    names = [keys.root(each) for each in forged]
    names += [keys.tenant_wide("acme", Index.QUEUE, "a:b"), keys.root(Partition("acme", "queue:a:b"))]
    assert len(set(names)) == len(names)
    assert all((name.count("{"), name.count("}")) == (1, 1) for name in names)


def test_a_lone_surrogate_in_a_name_gives_an_ascii_key() -> None:
    assert keys.tenant_wide("acme", Index.FOREIGN, "\ud800").isascii()
