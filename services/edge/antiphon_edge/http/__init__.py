"""The HTTP protocol: connections, headers, and errors in OpenAI's envelope."""
