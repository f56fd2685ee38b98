"""Turns: one request each, from acceptance to the terminal event."""
