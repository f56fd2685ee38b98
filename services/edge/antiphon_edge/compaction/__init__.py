"""A conversation made short."""
