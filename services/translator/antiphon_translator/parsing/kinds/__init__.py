"""Readers of the syntaxes in which models write calls, one module each. A family's table selects and configures one."""
