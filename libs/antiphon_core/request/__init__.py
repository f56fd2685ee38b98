"""The bodies of HTTP requests as pydantic models, and validation errors in OpenAI's form."""
