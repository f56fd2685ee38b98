"""From items and tools to the token ids of a prompt."""
