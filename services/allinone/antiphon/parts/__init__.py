"""What a process can run, a part to a module: a process imports only those that it runs."""
