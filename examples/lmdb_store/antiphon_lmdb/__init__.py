"""An LMDB file as a backend of Antiphon's store: an example of a backend in a package of its own."""
