"""JSON schemas in requests: which are accepted, and how they guide and check an answer."""
