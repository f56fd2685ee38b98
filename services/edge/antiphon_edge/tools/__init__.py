"""Calls of tools on tool servers, as a turn makes them."""
