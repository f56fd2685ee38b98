"""Rows in a PostgreSQL database; README.md says when to choose it."""
