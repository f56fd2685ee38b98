"""Served models: the profile, directory, tokenizer and template of each."""
