"""Lineages: what turns know of their prompts and outputs in the KV caches of engines."""
