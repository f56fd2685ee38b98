"""The output of an engine, from tokens to items to events."""
