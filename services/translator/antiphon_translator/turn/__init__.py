"""Plans a turn from its request: parameters, prompt and forced calls."""
