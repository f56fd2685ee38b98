-- The items of a response and all its ancestors, in no order. One row without a place when they are more than the
-- limits; no row when the response cannot be read. With deleted_too it may have been deleted, but not be expired. The
-- recursion makes one range of places per branch on the way to the root.
CREATE FUNCTION history_v1(
    of_tenant text, of_id text, deleted_too boolean, at_ms bigint, max_depth bigint, max_bytes bigint
) RETURNS TABLE (
    depth bigint, history_bytes bigint, place bigint, id text, items_crc bigint, input_bytes bigint, items bytea
) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tip AS MATERIALIZED (
        SELECT node.place, (node.place & 16777215) + 1 AS depth
        FROM node
        WHERE node.tenant = of_tenant AND node.id = of_id AND (deleted_too OR NOT node.deleted)
            AND (node.expires_at_ms IS NULL OR node.expires_at_ms > at_ms)
    ), segment (first, last) AS (
        SELECT tip.place & ~16777215::bigint, tip.place FROM tip WHERE tip.depth <= max_depth
        UNION ALL
        SELECT branch.forked_at & ~16777215::bigint, branch.forked_at
        FROM segment JOIN branch ON branch.id = segment.first >> 24
        WHERE branch.forked_at IS NOT NULL
    ), whole AS MATERIALIZED (
        -- As one JSON array: the items, a comma between two, the brackets. Lengths are read without the bytes.
        SELECT (coalesce(sum(octet_length(node.items)), 0)
            + greatest(count(*) FILTER (WHERE octet_length(node.items) > 0) - 1, 0) + 2)::bigint AS bytes
        FROM segment JOIN node ON node.place BETWEEN segment.first AND segment.last
    )
    SELECT tip.depth, whole.bytes, each.place, each.id, each.items_crc, each.input_bytes, each.items
    FROM tip CROSS JOIN whole
    LEFT JOIN (
        SELECT node.* FROM segment JOIN node ON node.place BETWEEN segment.first AND segment.last
    ) AS each ON whole.bytes <= max_bytes;
$$;

-- Where the next child of a response goes: behind it in its branch if nothing is there, else in a new branch.
CREATE FUNCTION new_place_v1(parent bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    new_branch bigint;
BEGIN
    IF parent IS NOT NULL AND NOT EXISTS (SELECT FROM node WHERE place = parent + 1) THEN
        RETURN parent + 1;
    END IF;
    INSERT INTO branch (forked_at) VALUES (parent) RETURNING id INTO new_branch;
    RETURN new_branch << 24 | coalesce((parent & 16777215) + 1, 0);
END
$$;

-- The place of the response that the one at `place` continues.
CREATE FUNCTION parent_place_v1(place bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN parent_place_v1.place & 16777215 > coalesce((forked_at & 16777215) + 1, 0) THEN parent_place_v1.place - 1
        ELSE forked_at
    END
    FROM branch WHERE id = parent_place_v1.place >> 24;
$$;

-- Lets go of a response and all below it if nothing of that is kept (base.py); then the same for its parent. The ranges
-- are the rest of its branch and, again and again, the branches that fork from a range. The caller has the tree's
-- exclusive lock.
CREATE FUNCTION reclaim_v1(from_place bigint, at_ms bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    top bigint := from_place;
    parent bigint;
    firsts bigint[];
    lasts bigint[];
BEGIN
    WHILE top IS NOT NULL LOOP
        WITH RECURSIVE span (first, last) AS (
            VALUES (top, top | 16777215)
            UNION ALL
            SELECT branch.id << 24, branch.id << 24 | 16777215
            FROM span JOIN branch ON branch.forked_at BETWEEN span.first AND span.last
        )
        SELECT array_agg(span.first), array_agg(span.last) INTO firsts, lasts FROM span;
        IF EXISTS (
            SELECT FROM unnest(firsts, lasts) AS span (first, last)
            JOIN node ON node.place BETWEEN span.first AND span.last
            WHERE (node.expires_at_ms IS NULL OR node.expires_at_ms > at_ms)
                AND (NOT node.deleted OR EXISTS (
                    SELECT FROM session WHERE session.tenant = node.tenant AND session.head_id = node.id
                ))
        ) THEN
            RETURN;
        END IF;
        parent := parent_place_v1(top);
        DELETE FROM node USING unnest(firsts, lasts) AS span (first, last)
        WHERE node.place BETWEEN span.first AND span.last;
        DELETE FROM branch WHERE id IN (SELECT first >> 24 FROM unnest(firsts) AS first)
            AND (id <> top >> 24 OR parent IS NULL OR parent >> 24 <> id);
        top := parent;
    END LOOP;
END
$$;
