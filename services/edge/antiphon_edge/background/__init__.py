"""Responses that nobody waits for: queued, run by workers, followed from anywhere."""
