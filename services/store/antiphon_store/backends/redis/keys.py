"""The names of Redis keys. Keys with the same text in braces lie in one hash slot of a Cluster.

    antiphon:{TENANT:TREE}             the root of a partition's keys; parts/rows.lua has what is below it
        :children:ID, :made:ID, :item:ID   zset  the indexes of the partition
    antiphon:{TENANT:INDEX:KEY}  zset  one key of a tenant-wide index: a slot of its own
    antiphon:tenants             set   every tenant that ever filed something in ENDS

The names between the braces are quoted, so that no tenant and no key can forge a brace or a colon.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote

from antiphon_store.rows.model import TENANT_WIDE, Index, Partition

TENANTS = "antiphon:tenants"


def root(partition: Partition) -> str:
    return f"antiphon:{{{_quote(partition.tenant)}:{_quote(partition.tree)}}}"


def entries(partition: Partition, index: Index, key: str) -> str:
    """The entries under a key of an index."""
    if index in TENANT_WIDE:
        return tenant_wide(partition.tenant, index, key)
    return f"{root(partition)}:{index}:{key}"


def tenant_wide(tenant: str, index: Index, key: str) -> str:
    return f"antiphon:{{{_quote(tenant)}:{index}:{_quote(key)}}}"


def of_tenant(tenant: str | None) -> str:
    """A pattern of all keys of a tenant, or of all tenants; `TENANTS` is none of them. Quoting leaves no wildcards."""
    return "antiphon:{*" if tenant is None else f"antiphon:{{{_quote(tenant)}:*"


@lru_cache(maxsize=4096)  # tenants and trees repeat
def _quote(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")
