"""Retention: reclaiming the space of what nobody can see any more."""
