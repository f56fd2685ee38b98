-- What a sweep looks through.
CREATE INDEX conversation_by_end ON conversation (tenant, expires_at_ms) WHERE expires_at_ms IS NOT NULL;
