"""The store in one SQLite file; README.md says when to choose it."""
