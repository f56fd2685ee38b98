"""The schema's versions, `NNNN_what_it_does.sql`, applied in order; PRAGMA user_version counts them."""
