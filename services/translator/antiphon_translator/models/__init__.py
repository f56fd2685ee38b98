"""Models as they are served: profile, directory, tokenizer and template of each."""
