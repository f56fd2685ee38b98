-- The statements of lineage (forks, trees, lists, items); see queries.sql.

-- name: fetch_many
-- Readable responses, each behind the bytes of all of them; one row without an id when those are too many. LIMIT has
-- them looked up one at a time, whatever the planner knows of the table.
WITH hit AS MATERIALIZED (
    SELECT place, octet_length(body) + octet_length(items) + 4
        - (input_bytes > 0 AND input_bytes < octet_length(items))::int AS bytes
    FROM unnest(%(ids)s::text[]) AS wanted CROSS JOIN LATERAL (
        SELECT * FROM node
        WHERE tenant = %(tenant)s AND id = wanted AND NOT deleted
            AND (expires_at_ms IS NULL OR expires_at_ms > (SELECT now_ms_v1(%(now_ms)s)))
        LIMIT 1
    ) AS found
), whole AS MATERIALIZED (
    SELECT coalesce(sum(bytes), 0)::bigint AS bytes FROM hit
)
SELECT whole.bytes, id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms, expires_at_ms,
    items_crc, body_crc, input_bytes, items, body
FROM whole LEFT JOIN (SELECT node.* FROM hit JOIN node USING (place)) AS each ON whole.bytes <= %(max_bytes)s;

-- name: list_ascending
-- The first responses of a session behind a position that fit, at least one, each behind the number of those that would
-- be next without a limit of bytes.
WITH page AS MATERIALIZED (
    SELECT place, row_number() OVER (ORDER BY created_at_ms, place & 16777215, id) AS n,
        sum(octet_length(body) + octet_length(items) + 4
            - (input_bytes > 0 AND input_bytes < octet_length(items))::int)
            OVER (ORDER BY created_at_ms, place & 16777215, id) AS bytes
    FROM node
    WHERE tenant = %(tenant)s AND session_id = %(session_id)s
        AND (created_at_ms, place & 16777215, id) > (%(created_at_ms)s, %(depth)s, %(id)s)
        AND NOT deleted AND (expires_at_ms IS NULL OR expires_at_ms > (SELECT now_ms_v1(%(now_ms)s)))
    ORDER BY created_at_ms, place & 16777215, id
    LIMIT %(limit)s + 1
)
SELECT (SELECT count(*) FROM page), id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms,
    expires_at_ms, items_crc, body_crc, input_bytes, items, body
FROM page JOIN node USING (place)
WHERE n = 1 OR (n <= %(limit)s AND bytes <= %(max_bytes)s)
ORDER BY n;

-- name: list_descending
WITH page AS MATERIALIZED (
    SELECT place, row_number() OVER (ORDER BY created_at_ms DESC, place & 16777215 DESC, id DESC) AS n,
        sum(octet_length(body) + octet_length(items) + 4
            - (input_bytes > 0 AND input_bytes < octet_length(items))::int)
            OVER (ORDER BY created_at_ms DESC, place & 16777215 DESC, id DESC) AS bytes
    FROM node
    WHERE tenant = %(tenant)s AND session_id = %(session_id)s
        AND (created_at_ms, place & 16777215, id) < (%(created_at_ms)s, %(depth)s, %(id)s)
        AND NOT deleted AND (expires_at_ms IS NULL OR expires_at_ms > (SELECT now_ms_v1(%(now_ms)s)))
    ORDER BY created_at_ms DESC, place & 16777215 DESC, id DESC
    LIMIT %(limit)s + 1
)
SELECT (SELECT count(*) FROM page), id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms,
    expires_at_ms, items_crc, body_crc, input_bytes, items, body
FROM page JOIN node USING (place)
WHERE n = 1 OR (n <= %(limit)s AND bytes <= %(max_bytes)s)
ORDER BY n;

-- name: find_items
-- The oldest readable response of each item, or addition to a conversation, with the digests of the items that it is for.
WITH moment AS MATERIALIZED (
    SELECT now_ms_v1(%(now_ms)s) AS ms
), hit AS (
    SELECT DISTINCT ON (digest) digest, node.place
    FROM item JOIN node ON node.place = item.place CROSS JOIN moment
    WHERE item.tenant = %(tenant)s AND digest = ANY (%(digests)s) AND (expires_at_ms IS NULL OR expires_at_ms > ms)
        AND (NOT deleted OR is_in_context_v1(node.tenant, node.session_id, node.place, digest, ms))
    ORDER BY digest, created_at_ms, node.id
), wanted AS (
    SELECT place, array_agg(digest) AS digests FROM hit GROUP BY place
)
SELECT wanted.digests, id, items_crc, input_bytes, items FROM wanted JOIN node USING (place);

-- name: subtree
-- What is stored of a readable response, or of its root, and everything below that, in no order: the walk of
-- reclaim_v1.
WITH RECURSIVE up (place) AS (
    SELECT place FROM node
    WHERE tenant = %(tenant)s AND id = %(id)s AND NOT deleted
        AND (expires_at_ms IS NULL OR expires_at_ms > (SELECT now_ms_v1(%(now_ms)s)))
    UNION ALL
    SELECT forked_at FROM up JOIN branch ON branch.id = up.place >> 24
    WHERE %(from_root)s::boolean AND forked_at IS NOT NULL
), top (place) AS (
    SELECT CASE WHEN %(from_root)s::boolean THEN min(up.place) & ~16777215::bigint ELSE min(up.place) END
    FROM up
), span (first, last) AS (
    SELECT place, place | 16777215 FROM top WHERE place IS NOT NULL
    UNION ALL
    SELECT branch.id << 24, branch.id << 24 | 16777215
    FROM span JOIN branch ON forked_at BETWEEN span.first AND span.last
)
SELECT id, parent_id, status, place & 16777215, created_at_ms,
    NOT deleted AND (expires_at_ms IS NULL OR expires_at_ms > (SELECT now_ms_v1(%(now_ms)s)))
FROM span JOIN node ON node.place BETWEEN span.first AND span.last
LIMIT %(max_nodes)s + 1;

-- name: children
-- The readable responses right behind a readable one (or behind its parent): the next of its branch, and the first of
-- every branch that forks there. Their own children are counted for those of the page only. One row without an id when
-- there are none; no row when the response cannot be read.
WITH moment AS MATERIALIZED (
    SELECT now_ms_v1(%(now_ms)s) AS ms
), self AS MATERIALIZED (
    SELECT place, id, parent_id FROM node CROSS JOIN moment
    WHERE tenant = %(tenant)s AND id = %(id)s AND NOT deleted AND (expires_at_ms IS NULL OR expires_at_ms > ms)
), base AS MATERIALIZED (
    SELECT place, id FROM self WHERE NOT %(of_parent)s::boolean
    UNION ALL
    SELECT node.place, node.id FROM self JOIN node ON node.tenant = %(tenant)s AND node.id = self.parent_id
    WHERE %(of_parent)s::boolean
), child (place) AS (
    SELECT place + 1 FROM base
    UNION ALL
    SELECT branch.id << 24 | (base.place & 16777215) + 1 FROM base JOIN branch ON forked_at = base.place
), page AS MATERIALIZED (
    SELECT node.id, node.parent_id, status, node.place, created_at_ms
    FROM child JOIN node ON node.place = child.place JOIN base ON base.id = node.parent_id CROSS JOIN moment
    WHERE NOT (%(of_parent)s::boolean AND node.id = %(id)s)
        AND (created_at_ms, node.id) > (%(after_ms)s, %(after_id)s)
        AND NOT deleted AND (expires_at_ms IS NULL OR expires_at_ms > ms)
    ORDER BY created_at_ms, node.id
    LIMIT %(limit)s + 1
)
SELECT page.id, page.parent_id, page.status, page.place & 16777215, page.created_at_ms, (
    SELECT count(*) FROM node AS next CROSS JOIN moment
    WHERE next.place = ANY (ARRAY(
            SELECT page.place + 1
            UNION ALL
            SELECT branch.id << 24 | (page.place & 16777215) + 1 FROM branch WHERE forked_at = page.place
        ))
        AND next.parent_id = page.id
        AND NOT next.deleted AND (next.expires_at_ms IS NULL OR next.expires_at_ms > ms)
)
FROM self LEFT JOIN page ON true
ORDER BY page.created_at_ms, page.id;

-- name: change_status
SELECT (answer).*
FROM change_status_v2(
    %(now_ms)s, %(tenant)s, %(id)s, %(status)s, %(expected_version)s, %(statuses)s, %(unless_statuses)s,
    %(fence_session)s, %(fence_token)s
) AS answer;

-- name: fork
SELECT outcome, head_id
FROM fork_v3(%(now_ms)s, %(tenant)s, %(source_session)s, %(source_response)s, %(new_session)s, %(new_tag)s);
