"""Parses a model's output into reasoning, text and tool calls: one parser, and one table per model family."""
