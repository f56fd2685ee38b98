"""The bodies that clients send: pydantic models, and their errors in OpenAI's form."""
