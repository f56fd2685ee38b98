"""gpt-oss: conversations and outputs, and what openai-harmony makes of them."""
