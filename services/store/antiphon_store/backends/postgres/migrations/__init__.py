"""The schema's versions, `NNNN_what_it_does.sql`, applied in order; the table schema_version counts them."""
