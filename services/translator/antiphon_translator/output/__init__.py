"""Turns the output of an engine into items and events."""
