-- The store's tables, and the functions that apply one program to one partition (rows/model.py).
--
-- PostgreSQL inlines a function of one SELECT. LIMIT and OFFSET 0 in a LATERAL keep the planner from reading a whole
-- tree that it takes for small.
--
-- Every key begins with tenant and tree, so each table can be partitioned by hash of the two, and a partition of rows
-- is never split. Text is compared byte by byte (COLLATE "C"), which is the order of code points.
--
-- Fields are JSON as text: rows are read whole, thousands in a chain, and few fields of few rows are evaluated here.

-- Rows of all kinds. Nodes alone have a place, branch * 2^32 + depth: a chain is one range of places for each branch. A
-- branch is a line of nodes without forks. The first child of its last node extends it, every other child begins a
-- branch of its own.
CREATE TABLE stored_row (
    tenant text COLLATE "C" NOT NULL,
    tree text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    place bigint,
    size bigint, -- of a node, as in its fields
    fields text NOT NULL,
    items bytea NOT NULL DEFAULT '',
    body bytea NOT NULL DEFAULT '',
    created bigint GENERATED ALWAYS AS ( -- of a node, as in its fields; no update of other fields changes an index
        CASE WHEN place IS NOT NULL THEN (fields::jsonb ->> 'created')::bigint END
    ) STORED,
    PRIMARY KEY (tenant, tree, kind, id)
) WITH (toast_tuple_target = 4080); -- keeps a typical response in one piece, two on a page
CREATE UNIQUE INDEX stored_row_by_place ON stored_row (tenant, tree, place) WHERE place IS NOT NULL;
-- Trees are listed by depth, their leaves by creation time (the indexes LEVEL and CREATED of rows/model.py). Their
-- condition keeps the planner from reading a whole tree with them where a statement asks for a range of places.
CREATE INDEX stored_row_by_level ON stored_row (tenant, tree, (place & 4294967295), created, id)
    WHERE created IS NOT NULL;
CREATE INDEX stored_row_by_time ON stored_row (tenant, tree, created, id) WHERE created IS NOT NULL;

-- Entries of indexes. The tree of a tenant-wide index is ''.
CREATE TABLE entry (
    tenant text COLLATE "C" NOT NULL,
    tree text COLLATE "C" NOT NULL,
    index text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (tenant, tree, index, key, id)
);
CREATE INDEX entry_by_time ON entry (tenant, tree, index, key, at, id);

-- A line of the answer to a program. The last one has number -1 and the id "applied", "refused", "depth" or "bytes".
-- The others have the number of a read and one of its rows or, if refused, the number of a guard and its row.
CREATE TYPE answer AS (number int, at bigint, id text, fields text, items bytea, body bytea);

CREATE FUNCTION clock_ms(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- The rows whose guards do not hold. A guard: [number, kind, id, test, field, value]. A list of values has no lists.
CREATE FUNCTION failing(a_tenant text, a_tree text, now_ms bigint, guards jsonb) RETURNS SETOF answer
LANGUAGE sql STABLE AS $$
    SELECT (guard ->> 0)::int, NULL::bigint, found.id, fields, items, body
    FROM jsonb_array_elements(guards) AS guard
    LEFT JOIN LATERAL (
        SELECT * FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND kind = guard ->> 1 AND id = guard ->> 2 LIMIT 1
    ) AS found ON true
    WHERE NOT CASE guard ->> 3
        WHEN 'absent' THEN found.id IS NULL
        WHEN 'present' THEN found.id IS NOT NULL
        WHEN 'is' THEN coalesce(fields::jsonb -> (guard ->> 4), 'null') = guard -> 5
        WHEN 'in' THEN guard -> 5 @> jsonb_build_array(fields::jsonb -> (guard ->> 4))
        WHEN 'not_in' THEN NOT guard -> 5 @> jsonb_build_array(fields::jsonb -> (guard ->> 4))
        WHEN 'ahead' THEN coalesce((fields::jsonb ->> (guard ->> 4))::bigint > now_ms, true)
        WHEN 'behind' THEN coalesce((fields::jsonb ->> (guard ->> 4))::bigint <= now_ms, true)
    END
$$;

-- The bounds that do not hold. A bound: [number, index, key, count].
CREATE FUNCTION crowded(a_tenant text, a_tree text, bounds jsonb) RETURNS SETOF answer LANGUAGE sql STABLE AS $$
    SELECT (bound ->> 0)::int, NULL::bigint, NULL::text, NULL::text, NULL::bytea, NULL::bytea
    FROM jsonb_array_elements(bounds) AS bound
    WHERE (bound ->> 3)::bigint <= 0 OR EXISTS (
        SELECT FROM entry
        WHERE tenant = a_tenant AND tree = a_tree AND index = bound ->> 1 AND key = bound ->> 2
        OFFSET greatest((bound ->> 3)::bigint - 1, 0)
    )
$$;

-- The lineages of a chain, of the nodes with these ids, root first: the first ones up to 80 KiB (LINEAGE_READ_BYTES_MAX) and the
-- last one. No turn takes others along, and of a long chain they would be most of the bytes.
CREATE FUNCTION chain_lineages(a_tenant text, a_tree text, ids text[]) RETURNS TABLE (at bigint, lineage bytea)
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    used bigint := 0;
BEGIN
    FOR at, lineage IN
        SELECT node.at, items FROM (
            SELECT named.id, named.at FROM unnest(ids) WITH ORDINALITY AS named (id, at) ORDER BY named.at OFFSET 0
        ) AS node CROSS JOIN LATERAL (
            SELECT items FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND kind = 'lineage' AND stored_row.id = node.id LIMIT 1
        ) AS found
    LOOP
        RETURN NEXT;
        used := used + octet_length(lineage);
        EXIT WHEN used > 81920;
    END LOOP;
    IF at < cardinality(ids) THEN
        at := cardinality(ids);
        SELECT items INTO lineage FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND kind = 'lineage' AND id = ids[cardinality(ids)] LIMIT 1;
        RETURN NEXT;
    END IF;
END
$$;

-- The nodes of a chain in no order, none if the chain exceeds a bound. A chain: [number, start, payload, max_depth,
-- max_bytes, from_head]. `at` is the depth. `excess`: returns instead the last line of an answer, with the bound.
CREATE FUNCTION chain_rows(a_tenant text, a_tree text, now_ms bigint, chain jsonb, excess boolean) RETURNS SETOF answer
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tip AS MATERIALIZED (
        SELECT place, (place & 4294967295) + 1 AS depth
        FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND kind = 'node' AND id = CASE chain ->> 5
                WHEN 'true' THEN (
                    SELECT fields::jsonb ->> 'head' FROM stored_row
                    WHERE tenant = a_tenant AND tree = a_tree AND kind = 'session' AND id = chain ->> 1
                )
                ELSE chain ->> 1
            END
            AND coalesce((fields::jsonb ->> 'expires')::bigint > now_ms, true)
    ), segment (first, last) AS (
        SELECT place & ~4294967295, place FROM tip WHERE depth <= (chain ->> 3)::bigint
        UNION ALL
        SELECT parent.place & ~4294967295, parent.place
        FROM segment CROSS JOIN LATERAL (
            SELECT fields::jsonb ->> 'parent' AS parent_id FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last ORDER BY place LIMIT 1
        ) AS begun CROSS JOIN LATERAL (
            SELECT place FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND kind = 'node' AND id = parent_id LIMIT 1
        ) AS parent
    ), whole AS MATERIALIZED (
        SELECT CASE chain ->> 2
            WHEN 'ib' THEN sum(size)
            WHEN '' THEN 0
            ELSE 1 + sum(octet_length(items) + (items <> '')::int)
        END > (chain ->> 4)::bigint AS is_excess,
        array_agg(id ORDER BY place & 4294967295) FILTER (WHERE chain ->> 2 = 'il') AS ids
        FROM segment CROSS JOIN LATERAL (
            SELECT id, place, size, items FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last OFFSET 0
        ) AS node
    ), kept AS MATERIALIZED (
        SELECT at, lineage FROM whole CROSS JOIN LATERAL chain_lineages(a_tenant, a_tree, ids) WHERE NOT is_excess
    )
    SELECT (chain ->> 0)::int, place & 4294967295, id, fields, CASE WHEN chain ->> 2 <> '' THEN items ELSE '' END,
        CASE chain ->> 2
            WHEN 'ib' THEN body
            WHEN 'il' THEN coalesce(lineage, '')
            ELSE ''
        END
    FROM segment CROSS JOIN LATERAL (
        SELECT place, id, fields, items, body FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last OFFSET 0
    ) AS node LEFT JOIN kept ON at = (place & 4294967295) + 1
    WHERE NOT excess AND NOT (SELECT is_excess FROM whole)
    UNION ALL
    SELECT -1, now_ms, CASE WHEN is_excess THEN 'bytes' ELSE 'depth' END, NULL, NULL, NULL
    FROM tip CROSS JOIN whole
    WHERE excess AND (is_excess OR depth > (chain ->> 3)::bigint)
$$;

-- A get: [number, kind, id, payload].
CREATE FUNCTION got_rows(a_tenant text, a_tree text, get jsonb) RETURNS SETOF answer LANGUAGE sql STABLE AS $$
    SELECT (get ->> 0)::int, NULL::bigint, id, fields, CASE WHEN get ->> 3 <> '' THEN items END,
        CASE get ->> 3 WHEN 'ib' THEN body END
    FROM stored_row
    WHERE tenant = a_tenant AND tree = a_tree AND kind = get ->> 1 AND id = get ->> 2 LIMIT 1
$$;

-- A range: [number, kind, prefix, start, max_bytes].
CREATE FUNCTION range_rows(a_tenant text, a_tree text, range jsonb) RETURNS SETOF answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    line answer;
    used bigint := 0;
    first text := (
        SELECT max(id) FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND kind = range ->> 1 AND id BETWEEN range ->> 2 AND range ->> 3
    );
BEGIN
    FOR line IN
        SELECT (range ->> 0)::int, NULL, id, fields, items, body FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND kind = range ->> 1 AND id >= coalesce(first, range ->> 2)
        ORDER BY id
    LOOP
        EXIT WHEN NOT starts_with(line.id, range ->> 2);
        RETURN NEXT line;
        used := used + octet_length(line.items);
        EXIT WHEN used >= (range ->> 4)::bigint;
    END LOOP;
END
$$;

-- The place of a new node: after its parent, or the first of a new branch.
CREATE FUNCTION new_place(a_tenant text, a_tree text, a_parent text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    behind bigint; -- the parent's place
    taken bigint;
    newest bigint; -- the place of the last node of the last branch
BEGIN
    IF a_parent IS NOT NULL THEN
        SELECT parent.place, child.place INTO STRICT behind, taken
        FROM (
            SELECT place FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND kind = 'node' AND id = a_parent LIMIT 1
        ) AS parent
        LEFT JOIN LATERAL (
            SELECT place FROM stored_row WHERE tenant = a_tenant AND tree = a_tree AND place = parent.place + 1 LIMIT 1
        ) AS child ON true;
        IF taken IS NULL THEN
            RETURN behind + 1;
        END IF;
    END IF;
    SELECT place INTO newest FROM stored_row
    WHERE tenant = a_tenant AND tree = a_tree AND place IS NOT NULL ORDER BY place DESC LIMIT 1;
    RETURN (coalesce(newest, 0) | 4294967295) + 1 + coalesce((behind & 4294967295) + 1, 0);
END
$$;

-- Takes the locks of programs, in their order: [name, whether it is exclusive]. Each later statement sees the changes
-- that were committed under them.
CREATE FUNCTION take_locks(locks jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM CASE lock ->> 1
        WHEN 'true' THEN pg_advisory_xact_lock(hashtextextended(lock ->> 0, 0))
        ELSE pg_advisory_xact_lock_shared(hashtextextended(lock ->> 0, 0))
    END FROM jsonb_array_elements(locks) AS lock;
    RETURN true;
END
$$;

-- Applies a program, under its locks; programs.py writes `program`.
CREATE FUNCTION transact(a_tenant text, a_tree text, given_ms bigint, program jsonb, payloads bytea)
RETURNS SETOF answer LANGUAGE plpgsql AS $$
DECLARE
    now_ms bigint;
    is_refused boolean := false;
    changes jsonb := coalesce(program -> 'changes', '[]');
    filed jsonb := coalesce(program -> 'filed', '[]');
    part jsonb;
    written jsonb; -- fields
    name text;
    plus_ms bigint;
    new_items bytea;
    new_body bytea;
    new_place bigint;
BEGIN
    now_ms := clock_ms(given_ms);
    IF program ? 'volatile' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF program ? 'guards' THEN
        RETURN QUERY SELECT * FROM failing(a_tenant, a_tree, now_ms, program -> 'guards');
        is_refused := FOUND;
    END IF;
    IF program ? 'bounds' THEN
        RETURN QUERY SELECT * FROM crowded(a_tenant, a_tree, program -> 'bounds');
        is_refused := is_refused OR FOUND;
    END IF;
    IF is_refused THEN
        RETURN NEXT ROW(-1, now_ms, 'refused', NULL, NULL, NULL)::answer;
        RETURN;
    END IF;
    IF program ? 'chains' THEN
        FOR i IN 0 .. jsonb_array_length(program -> 'chains') - 1 LOOP
            part := program -> 'chains' -> i;
            RETURN QUERY SELECT * FROM chain_rows(a_tenant, a_tree, now_ms, part, false);
            IF NOT FOUND THEN
                RETURN QUERY SELECT * FROM chain_rows(a_tenant, a_tree, now_ms, part, true);
                IF FOUND THEN
                    RETURN;
                END IF;
            END IF;
        END LOOP;
    END IF;

    -- A change: [what, kind, id, fields, times, items, body, sums or parent]. Times are so long from now. Sums are numbers
    -- to be added to what is there, or [time].
    FOR i IN 0 .. jsonb_array_length(changes) - 1 LOOP
        part := changes -> i;
        written := part -> 3;
        IF part ->> 4 IS NOT NULL THEN
            FOR name, plus_ms IN SELECT key, value::bigint FROM jsonb_each_text(part -> 4) LOOP
                written := written || jsonb_build_object(name, now_ms + plus_ms);
            END LOOP;
        END IF;
        new_items := substr(payloads, (part -> 5 ->> 0)::int, (part -> 5 ->> 1)::int);
        new_body := substr(payloads, (part -> 6 ->> 0)::int, (part -> 6 ->> 1)::int);
        CASE part ->> 0
        WHEN 'set' THEN
            LOOP
                UPDATE stored_row AS old SET
                    fields = (old.fields::jsonb || written || (
                        SELECT jsonb_object_agg(each.key, CASE jsonb_typeof(value)
                            WHEN 'array' THEN now_ms + (value ->> 0)::bigint
                            ELSE coalesce((old.fields::jsonb ->> each.key)::bigint, 0) + value::bigint
                        END)
                        FROM jsonb_each(part -> 7) AS each
                    ))::text,
                    size = coalesce((written ->> 'size')::bigint, old.size),
                    items = coalesce(new_items, old.items),
                    body = coalesce(new_body, old.body)
                WHERE tenant = a_tenant AND tree = a_tree AND kind = part ->> 1 AND id = part ->> 2;
                EXIT WHEN FOUND;
                INSERT INTO stored_row (tenant, tree, kind, id, fields)
                VALUES (a_tenant, a_tree, part ->> 1, part ->> 2, '{}');
            END LOOP;
        WHEN 'put' THEN
            INSERT INTO stored_row AS old (tenant, tree, kind, id, fields, items, body)
            VALUES (a_tenant, a_tree, part ->> 1, part ->> 2, written::text, new_items, new_body)
            ON CONFLICT (tenant, tree, kind, id) DO UPDATE SET
                fields = written::text,
                items = new_items,
                body = new_body;
        WHEN 'grow' THEN
            new_place := new_place(a_tenant, a_tree, part ->> 7);
            written := written || jsonb_build_object('depth', new_place & 4294967295, 'created', now_ms, 'updated', now_ms);
            INSERT INTO stored_row (tenant, tree, kind, id, place, size, fields, items, body)
            VALUES (a_tenant, a_tree, part ->> 1, part ->> 2, new_place, (written ->> 'size')::bigint, written::text,
                new_items, new_body);
            IF part ->> 7 IS NOT NULL THEN
                filed := filed || jsonb_build_array(
                    jsonb_build_array(a_tree, 'children', part ->> 7, part ->> 2, now_ms));
            END IF;
            IF written ->> 'session' IS NOT NULL THEN
                filed := filed || jsonb_build_array(jsonb_build_array(a_tree, 'made', written ->> 'session',
                    to_char(new_place & 4294967295, 'FM00000000') || '/' || (part ->> 2), now_ms));
            END IF;
        WHEN 'delete' THEN
            DELETE FROM stored_row WHERE tenant = a_tenant AND tree = a_tree AND kind = part ->> 1 AND id = part ->> 2;
        WHEN 'delete_below' THEN
            DELETE FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND kind = part ->> 1
                AND id BETWEEN part ->> 2 AND part ->> 2 || U&'\+10FFFF';
        END CASE;
    END LOOP;

    -- An entry: [tree, index, key, id, at, from now]
    IF program ? 'unfiled' THEN
        FOR i IN 0 .. jsonb_array_length(program -> 'unfiled') - 1 LOOP
            part := program -> 'unfiled' -> i;
            DELETE FROM entry
            WHERE tenant = a_tenant AND tree = part ->> 0 AND index = part ->> 1 AND key = part ->> 2 AND id = part ->> 3;
        END LOOP;
    END IF;
    IF jsonb_array_length(filed) > 0 THEN
        INSERT INTO entry (tenant, tree, index, key, id, at)
        SELECT a_tenant, each ->> 0, each ->> 1, each ->> 2, each ->> 3,
            coalesce((each ->> 4)::bigint, now_ms + (each ->> 5)::bigint)
        FROM jsonb_array_elements(filed) AS each
        ON CONFLICT (tenant, tree, index, key, id) DO UPDATE SET at = excluded.at;
    END IF;
    IF program ? 'gets' THEN
        RETURN QUERY SELECT found.* FROM jsonb_array_elements(program -> 'gets') AS get
            CROSS JOIN LATERAL got_rows(a_tenant, a_tree, get) AS found;
    END IF;
    IF program ? 'ranges' THEN
        RETURN QUERY SELECT found.* FROM jsonb_array_elements(program -> 'ranges') AS range
            CROSS JOIN LATERAL range_rows(a_tenant, a_tree, range) AS found;
    END IF;
    RETURN NEXT ROW(-1, now_ms, 'applied', NULL, NULL, NULL)::answer;
END
$$;
