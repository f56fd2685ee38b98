"""Turns over a WebSocket."""
