"""Periodic work of a store."""
