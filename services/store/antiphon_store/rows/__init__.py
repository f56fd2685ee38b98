"""Rows and the conditional transactions on them: all that a backend implements."""
