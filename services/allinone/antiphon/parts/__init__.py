"""Services as parts of a process, one to a module: a process imports only those that it runs. The edge and its worker
are parts by themselves."""
