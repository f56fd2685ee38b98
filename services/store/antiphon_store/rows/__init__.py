"""Rows, and the conditional transactions over them: the only thing that a backend knows."""
