"""Idempotency keys: a write or a turn that is asked for again happens once."""
