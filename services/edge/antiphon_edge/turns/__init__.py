"""A turn, from the request to its one end."""
