"""Turns items and tools into the token ids of a prompt."""
