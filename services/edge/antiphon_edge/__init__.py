"""The edge: HTTP in, the turn, server-sent events out. It keeps nothing and renders nothing."""
