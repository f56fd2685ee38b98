"""The ways in which models write calls down, one module each; a family's table chooses and fills them in."""
