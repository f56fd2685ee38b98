"""Operators' tools for a store's data: export, import, verification and statistics, over any row backend."""
