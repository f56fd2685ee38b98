"""One turn as its request asks for it: parameters, prompt and forced calls."""
