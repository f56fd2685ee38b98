-- What a sweep looks through.
CREATE INDEX node_by_end ON node (tenant, expires_at_ms) WHERE expires_at_ms IS NOT NULL;
