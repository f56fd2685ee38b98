"""Rows in one SQLite file; README.md says when to choose it."""
