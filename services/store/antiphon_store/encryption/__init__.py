"""Encryption at rest: a row backend that seals content before it reaches the database."""
