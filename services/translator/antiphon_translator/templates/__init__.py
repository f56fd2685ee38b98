"""From a conversation to prompt text, and what in that text may become a control token."""
