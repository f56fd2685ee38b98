-- An idempotency key and the response that it belongs to: backends/idempotency.py.
CREATE TABLE idempotency_key (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    response_id TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    claimed_until_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    version INTEGER, -- NULL while the response runs; then these five are the stamp of its first write under the key
    depth INTEGER,
    created_at_ms INTEGER,
    updated_at_ms INTEGER,
    record_expires_at_ms INTEGER,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_key_by_expiry ON idempotency_key (expires_at_ms);
