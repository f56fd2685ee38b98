"""Finds out why the prompt of a response was not in the engine's cache."""
