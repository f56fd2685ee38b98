"""Work that a store does by itself, round after round."""
