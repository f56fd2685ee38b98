"""Compaction: a summary replaces the earlier part of a long conversation."""
