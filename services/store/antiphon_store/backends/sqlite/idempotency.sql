-- Every statement on idempotency keys, by name. Tables and columns: migrations/*_idempotency_keys.sql.

-- name: read_key
SELECT response_id, fingerprint, claimed_until_ms, expires_at_ms, version, depth, created_at_ms, updated_at_ms,
    record_expires_at_ms
FROM idempotency_key WHERE tenant = :tenant AND key = :key;

-- name: write_key
INSERT OR REPLACE INTO idempotency_key (tenant, key, response_id, fingerprint, claimed_until_ms, expires_at_ms, version,
    depth, created_at_ms, updated_at_ms, record_expires_at_ms)
VALUES (:tenant, :key, :response_id, :fingerprint, :claimed_until_ms, :expires_at_ms, :version, :depth, :created_at_ms,
    :updated_at_ms, :record_expires_at_ms);

-- name: drop_key
DELETE FROM idempotency_key WHERE tenant = :tenant AND key = :key;

-- name: drop_expired_keys
-- A few for each key that is written, so that they never pile up.
DELETE FROM idempotency_key
WHERE (tenant, key) IN (SELECT tenant, key FROM idempotency_key WHERE expires_at_ms <= :now_ms LIMIT 2);
