"""The translator: a conversation in, the events of one response out. It is a function and keeps nothing."""
