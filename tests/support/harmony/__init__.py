"""Conversations and outputs of gpt-oss, and openai-harmony's reading of them."""
