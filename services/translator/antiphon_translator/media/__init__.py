"""Images and files in a conversation: how they come in, what is read of them, and what is refused."""
