"""Protection against SSRF for connections to servers that requests name: their URLs, addresses, sockets and heads."""
