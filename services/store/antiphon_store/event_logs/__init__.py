"""Event logs: appended under a position, read from any place, followed to their end."""
