-- The statements of retention; see queries.sql.

-- name: sweep
SELECT records, size_bytes, has_more FROM sweep_v1(%(now_ms)s, %(tenant)s, %(most)s);

-- name: tenants
-- From one tenant to the next in the order of an index, so that it costs as much as there are tenants.
WITH RECURSIVE of_node (tenant) AS (
    SELECT min(tenant) FROM node WHERE expires_at_ms IS NOT NULL
    UNION ALL
    SELECT (SELECT min(node.tenant) FROM node WHERE expires_at_ms IS NOT NULL AND node.tenant > of_node.tenant)
    FROM of_node WHERE tenant IS NOT NULL
), of_log (tenant) AS (
    SELECT min(tenant) FROM event_log
    UNION ALL
    SELECT (SELECT min(event_log.tenant) FROM event_log WHERE event_log.tenant > of_log.tenant)
    FROM of_log WHERE tenant IS NOT NULL
), of_job (tenant) AS (
    SELECT min(tenant) FROM job WHERE forgettable_at_ms IS NOT NULL
    UNION ALL
    SELECT (SELECT min(job.tenant) FROM job WHERE forgettable_at_ms IS NOT NULL AND job.tenant > of_job.tenant)
    FROM of_job WHERE tenant IS NOT NULL
), of_conversation (tenant) AS (
    SELECT min(tenant) FROM conversation WHERE expires_at_ms IS NOT NULL
    UNION ALL
    SELECT (SELECT min(conversation.tenant) FROM conversation
        WHERE expires_at_ms IS NOT NULL AND conversation.tenant > of_conversation.tenant)
    FROM of_conversation WHERE tenant IS NOT NULL
)
SELECT tenant FROM (
    SELECT tenant FROM of_node UNION SELECT tenant FROM of_log
    UNION SELECT tenant FROM of_job UNION SELECT tenant FROM of_conversation
) AS each
WHERE tenant IS NOT NULL
ORDER BY tenant;
