"""Backends around backends: one concern each, with the same interface, stacked where the store is composed."""
