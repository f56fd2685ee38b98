-- What tenants use up of what they may: antiphon_core/spending.py. Unlogged: it is worth a minute, costs no flush of the
-- disk, and begins anew when the server has crashed. `forget_at_ms` is rounded up to hours, so that a spend changes no
-- index.
CREATE UNLOGGED TABLE spending_bucket (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    level double precision NOT NULL,
    capacity double precision NOT NULL,
    per_minute double precision NOT NULL,
    at_ms bigint NOT NULL,
    forget_at_ms bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX spending_bucket_by_end ON spending_bucket (forget_at_ms);

CREATE UNLOGGED TABLE spending_place (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    expires_at_ms bigint NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX spending_place_by_end ON spending_place (expires_at_ms);

-- `refused`: the name of a bucket, empty for places, NULL for nothing. Then for each draw its bucket, NULL when nobody
-- described it.
CREATE TYPE spent_v1 AS (
    refused text, levels double precision[], capacities double precision[], rates double precision[], at_ms bigint
);

-- A bucket as of now and as the draw describes it. NULL: nobody ever did, or it is forgotten.
CREATE FUNCTION described_bucket_v1(
    bucket spending_bucket, of_tenant text, of_name text, new_capacity double precision, new_rate double precision,
    at_ms bigint, memory_ms bigint
) RETURNS spending_bucket LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    elapsed_ms bigint := greatest(0, at_ms - bucket.at_ms);
BEGIN
    IF bucket.tenant IS NOT NULL THEN
        bucket.level := least(bucket.capacity, bucket.level + elapsed_ms * bucket.per_minute / 60000);
        IF elapsed_ms >= memory_ms AND bucket.level >= bucket.capacity THEN
            bucket := NULL;
        END IF;
    END IF;
    IF new_capacity > 0 THEN
        RETURN ROW(of_tenant, of_name, least(coalesce(bucket.level, new_capacity), new_capacity), new_capacity,
            new_rate, greatest(at_ms, bucket.at_ms), 0)::spending_bucket;
    ELSIF bucket.tenant IS NULL THEN
        RETURN NULL;
    END IF;
    bucket.at_ms := greatest(at_ms, bucket.at_ms);
    RETURN bucket;
END
$$;

-- Keeps a bucket until it would be forgotten.
CREATE FUNCTION keep_bucket_v1(bucket spending_bucket, memory_ms bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    full_in_ms double precision := (bucket.capacity - bucket.level) * 60000 / bucket.per_minute;
    hours bigint := ceil((bucket.at_ms + memory_ms + least(full_in_ms, 1e15)) / 3600000);
BEGIN
    INSERT INTO spending_bucket (tenant, name, level, capacity, per_minute, at_ms, forget_at_ms)
    VALUES (bucket.tenant, bucket.name, bucket.level, bucket.capacity, bucket.per_minute, bucket.at_ms, hours * 3600000)
    ON CONFLICT (tenant, name) DO UPDATE SET level = excluded.level, capacity = excluded.capacity,
        per_minute = excluded.per_minute, at_ms = excluded.at_ms, forget_at_ms = excluded.forget_at_ms;
END
$$;

-- Gives back places, and holds others from now on.
CREATE FUNCTION keep_places_v1(
    of_tenant text, held text[], until_ms bigint, released text[], at_ms bigint
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM spending_place
    WHERE tenant = of_tenant AND (id = ANY (released) OR (expires_at_ms <= at_ms AND id <> ALL (held)));
    INSERT INTO spending_place AS place (tenant, id, expires_at_ms)
    SELECT of_tenant, each, until_ms FROM unnest(held) AS each
    ON CONFLICT (tenant, id) DO UPDATE SET expires_at_ms = greatest(place.expires_at_ms, excluded.expires_at_ms);
END
$$;

-- A few of anybody's buckets and places whose time is over, so that they never pile up. Waits for nobody.
CREATE FUNCTION forget_spending_v1(now_ms bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    old_bucket spending_bucket;
    old_place spending_place;
BEGIN
    FOR old_bucket IN
        SELECT * FROM spending_bucket WHERE forget_at_ms <= now_ms ORDER BY forget_at_ms LIMIT 2 FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM spending_bucket WHERE tenant = old_bucket.tenant AND name = old_bucket.name;
    END LOOP;
    FOR old_place IN
        SELECT * FROM spending_place WHERE expires_at_ms <= now_ms ORDER BY expires_at_ms LIMIT 2 FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM spending_place WHERE tenant = old_place.tenant AND id = old_place.id;
    END LOOP;
END
$$;

-- All of a spend, or nothing. Of one tenant's spends one runs at a time.
CREATE FUNCTION spend_v1(
    given_ms bigint, of_tenant text, memory_ms bigint, names text[], amounts double precision[],
    leasts double precision[], capacities double precision[], rates double precision[],
    held text[], most bigint, ttl_ms bigint, released text[]
) RETURNS spent_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    now_ms bigint;
    is_repeated boolean;
    bucket spending_bucket;
    buckets spending_bucket[] := '{}';
    others bigint;
    answer spent_v1;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('spending ' || of_tenant, 0));
    now_ms := now_ms_v1(given_ms);
    SELECT cardinality(held) > 0 AND count(*) = cardinality(held) INTO is_repeated FROM spending_place
    WHERE tenant = of_tenant AND id = ANY (held) AND expires_at_ms > now_ms;
    FOR n IN 1 .. cardinality(names) LOOP
        SELECT * INTO bucket FROM spending_bucket WHERE tenant = of_tenant AND name = names[n];
        bucket := described_bucket_v1(bucket, of_tenant, names[n], capacities[n], rates[n], now_ms, memory_ms);
        IF NOT is_repeated AND answer.refused IS NULL AND leasts[n] > 0 AND bucket.level < leasts[n] - 1e-6 THEN
            answer.refused := names[n];
        END IF;
        buckets := buckets || bucket;
    END LOOP;
    IF NOT is_repeated AND answer.refused IS NULL AND most > 0 AND cardinality(held) > 0 THEN
        SELECT count(*) INTO others FROM spending_place
        WHERE tenant = of_tenant AND expires_at_ms > now_ms AND id <> ALL (held || released);
        IF others + cardinality(held) > most THEN
            answer.refused := '';
        END IF;
    END IF;
    FOR n IN 1 .. cardinality(names) LOOP
        bucket := buckets[n];
        IF answer.refused IS NULL AND bucket.tenant IS NOT NULL THEN
            IF NOT is_repeated THEN
                bucket.level := bucket.level - amounts[n];
            END IF;
            PERFORM keep_bucket_v1(bucket, memory_ms);
        END IF;
        answer.levels := answer.levels || bucket.level;
        answer.capacities := answer.capacities || bucket.capacity;
        answer.rates := answer.rates || bucket.per_minute;
    END LOOP;
    IF answer.refused IS NULL THEN
        PERFORM keep_places_v1(of_tenant, held, now_ms + ttl_ms, released, now_ms);
        PERFORM forget_spending_v1(now_ms);
    END IF;
    answer.at_ms := now_ms;
    RETURN answer;
END
$$;
