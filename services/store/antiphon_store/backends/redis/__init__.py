"""Rows in Redis; README.md says when to choose it."""
