"""The store in Redis: each atom one Lua script, the server's clock the only one. See README.md."""
