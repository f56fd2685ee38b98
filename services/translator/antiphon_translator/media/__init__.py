"""Images and files in a conversation: fetching, reading and checking them."""
