"""Encryption at rest: a backend whose rows are sealed on their way to the database."""
