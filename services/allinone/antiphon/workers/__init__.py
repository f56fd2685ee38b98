"""`antiphon serve --workers N`: several processes of the same targets behind the same ports."""
