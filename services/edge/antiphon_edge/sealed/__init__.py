"""Sealed content: encrypted by the edge, kept by clients, and sent back in later requests."""
