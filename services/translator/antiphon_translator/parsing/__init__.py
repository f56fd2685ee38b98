"""Parses a model's output into reasoning, text and calls: one parser, and one table per model family."""
