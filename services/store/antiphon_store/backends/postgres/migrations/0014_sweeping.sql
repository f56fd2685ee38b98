-- What a sweep looks through, tenant by tenant. (Without a tenant the two were of no use.)
CREATE INDEX node_by_end ON node (tenant, expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX event_log_by_tenant_and_end ON event_log (tenant, expires_at_ms);
CREATE INDEX job_by_tenant_and_end ON job (tenant, forgettable_at_ms) WHERE forgettable_at_ms IS NOT NULL;
DROP INDEX event_log_by_end;
DROP INDEX job_by_end;

-- What the parts of a sweep came to. `skipped`: something was in another's hands.
CREATE TYPE swept_v1 AS (records bigint, size_bytes bigint, skipped boolean);

-- Whether nobody else writes in the tree of this response until the end of the transaction. Does not wait. The lock is
-- that of lock_trees_v1.
CREATE FUNCTION try_tree_v1(of_tenant text, of_id text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT pg_try_advisory_xact_lock(hashtextextended(of_tenant || ' ' || substr(of_id, 6, 16), 0));
$$;

-- Whether a response may go as soon as nothing continues it: expired, or deleted and nobody's head (base.py).
CREATE FUNCTION is_let_go_v1(response node, at_ms bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(response.expires_at_ms <= at_ms, false) OR (response.deleted AND NOT EXISTS (
        SELECT FROM session WHERE session.tenant = response.tenant AND session.head_id = response.id
    ));
END
$$;

-- Lets a sweep find a response that was deleted and that no session goes on from any more. Nobody can see the difference.
CREATE FUNCTION expire_hidden_v1(of_place bigint, at_ms bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE node SET expires_at_ms = at_ms
    WHERE place = of_place AND deleted AND coalesce(expires_at_ms > at_ms, true) AND is_let_go_v1(node, at_ms);
END
$$;

-- Lets go of a response that nothing continues, if it may go: its bytes and the place of its parent. No bytes: it stays.
-- The caller has the lock of its tree.
CREATE FUNCTION drop_leaf_v1(leaf bigint, at_ms bigint, OUT size_bytes bigint, OUT parent bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    fork bigint;
    is_first boolean;
BEGIN
    SELECT octet_length(items) + octet_length(body) INTO size_bytes FROM node
    WHERE place = leaf AND is_let_go_v1(node, at_ms)
        AND NOT EXISTS (SELECT FROM node AS next WHERE next.place = leaf + 1)
        AND NOT EXISTS (SELECT FROM branch WHERE forked_at = leaf);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT forked_at, (leaf & 16777215) = coalesce((forked_at & 16777215) + 1, 0) INTO fork, is_first
    FROM branch WHERE id = leaf >> 24;
    DELETE FROM node WHERE place = leaf;
    IF is_first THEN
        DELETE FROM branch WHERE id = leaf >> 24;
    END IF;
    parent := CASE WHEN is_first THEN fork ELSE leaf - 1 END;
END
$$;

-- Expired conversations with their marks, leases and heads. What a head kept is left to sweep_nodes_v1, which does so much
-- and no more.
CREATE FUNCTION sweep_conversations_v1(of_tenant text, at_ms bigint, most bigint)
RETURNS swept_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    swept swept_v1 := ROW(0, 0, false);
    expired conversation;
    state session;
BEGIN
    FOR expired IN
        SELECT * FROM conversation WHERE tenant = of_tenant AND expires_at_ms <= at_ms ORDER BY expires_at_ms LIMIT most
    LOOP
        SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = expired.id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND OR (state.head_id IS NOT NULL AND NOT try_tree_v1(of_tenant, state.head_id)) THEN
            swept.skipped := true;
            CONTINUE;
        END IF;
        DELETE FROM conversation
        WHERE tenant = of_tenant AND id = expired.id AND incarnation = expired.incarnation;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM removed_item WHERE tenant = of_tenant AND conversation_id = expired.id;
        UPDATE session SET head_id = NULL, holder = '', lease_expires_at_ms = 0
        WHERE tenant = of_tenant AND id = expired.id;
        PERFORM expire_hidden_v1(place, at_ms) FROM node WHERE tenant = of_tenant AND id = state.head_id;
        swept.records := swept.records + 1;
        swept.size_bytes := swept.size_bytes + octet_length(expired.metadata);
    END LOOP;
    RETURN swept;
END
$$;

-- From expired responses that nothing continues upwards, one at a time: a leaf that goes may make its parent the next one.
-- Whatever may go is such a leaf, or an ancestor of one.
CREATE FUNCTION sweep_nodes_v1(of_tenant text, at_ms bigint, most bigint)
RETURNS swept_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    swept swept_v1 := ROW(0, 0, false);
    leaf bigint;
    leaf_id text;
    step bigint;
    bytes bigint;
    parent bigint;
BEGIN
    FOR leaf, leaf_id IN
        SELECT node.place, node.id FROM node
        WHERE tenant = of_tenant AND expires_at_ms <= at_ms
            AND NOT EXISTS (SELECT FROM node AS next WHERE next.place = node.place + 1)
            AND NOT EXISTS (SELECT FROM branch WHERE forked_at = node.place)
        ORDER BY expires_at_ms
        LIMIT most
    LOOP
        EXIT WHEN swept.records >= most;
        IF NOT try_tree_v1(of_tenant, leaf_id) THEN
            swept.skipped := true;
            CONTINUE;
        END IF;
        step := leaf;
        WHILE step IS NOT NULL AND swept.records < most LOOP
            SELECT * INTO bytes, parent FROM drop_leaf_v1(step, at_ms);
            EXIT WHEN bytes IS NULL;
            swept.records := swept.records + 1;
            swept.size_bytes := swept.size_bytes + bytes;
            step := parent;
        END LOOP;
        IF step IS NOT NULL AND bytes IS NOT NULL THEN
            PERFORM expire_hidden_v1(step, at_ms);
        END IF;
    END LOOP;
    RETURN swept;
END
$$;

CREATE FUNCTION sweep_logs_v1(of_tenant text, at_ms bigint, most bigint) RETURNS swept_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    swept swept_v1;
    logs bigint[] := ARRAY(
        SELECT id FROM event_log WHERE tenant = of_tenant AND expires_at_ms <= at_ms
        ORDER BY expires_at_ms LIMIT most FOR UPDATE SKIP LOCKED
    );
BEGIN
    WITH gone AS (
        DELETE FROM event_batch WHERE log = ANY (logs) RETURNING octet_length(frames) AS bytes
    )
    SELECT cardinality(logs), coalesce(sum(bytes), 0), false INTO swept FROM gone;
    DELETE FROM event_log WHERE id = ANY (logs);
    RETURN swept;
END
$$;

CREATE FUNCTION sweep_jobs_v1(of_tenant text, at_ms bigint, most bigint) RETURNS swept_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    swept swept_v1;
    jobs bigint[] := ARRAY(
        SELECT id FROM job WHERE tenant = of_tenant AND forgettable_at_ms <= at_ms
        ORDER BY forgettable_at_ms LIMIT most FOR UPDATE SKIP LOCKED
    );
BEGIN
    SELECT cardinality(jobs), coalesce(sum(octet_length(payload)), 0), false INTO swept
    FROM job_payload WHERE job = ANY (jobs);
    DELETE FROM job WHERE id = ANY (jobs);
    RETURN swept;
END
$$;

-- Reclaims up to `most` of what a tenant has that nobody can see. It takes no lock that it would have to wait for, so it
-- stands in nobody's way for longer than it runs, and two sweeps do not stand in each other's.
CREATE FUNCTION sweep_v1(given_ms bigint, of_tenant text, most bigint)
RETURNS TABLE (records bigint, size_bytes bigint, has_more boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at_ms bigint := now_ms_v1(given_ms);
    part swept_v1;
    nodes swept_v1;
BEGIN
    part := sweep_conversations_v1(of_tenant, at_ms, most);
    records := part.records;
    size_bytes := part.size_bytes;
    nodes := sweep_nodes_v1(of_tenant, at_ms, most - records);
    records := records + nodes.records;
    size_bytes := size_bytes + nodes.size_bytes;
    part := sweep_logs_v1(of_tenant, at_ms, most - records);
    records := records + part.records;
    size_bytes := size_bytes + part.size_bytes;
    part := sweep_jobs_v1(of_tenant, at_ms, most - records);
    records := records + part.records;
    size_bytes := size_bytes + part.size_bytes;
    has_more := nodes.skipped
        OR EXISTS (SELECT FROM conversation WHERE tenant = of_tenant AND expires_at_ms <= at_ms)
        OR EXISTS (SELECT FROM event_log WHERE tenant = of_tenant AND expires_at_ms <= at_ms)
        OR EXISTS (SELECT FROM job WHERE tenant = of_tenant AND forgettable_at_ms <= at_ms);
    IF NOT has_more AND records >= most THEN -- fewer would mean that all were seen
        has_more := EXISTS (
            SELECT FROM node
            WHERE tenant = of_tenant AND expires_at_ms <= at_ms
                AND NOT EXISTS (SELECT FROM node AS next WHERE next.place = node.place + 1)
                AND NOT EXISTS (SELECT FROM branch WHERE forked_at = node.place)
        );
    END IF;
    RETURN NEXT;
END
$$;
