-- The statement of spending; see queries.sql.

-- name: spend
SELECT refused, coalesce(levels, '{}'), coalesce(capacities, '{}'), coalesce(rates, '{}'), at_ms FROM spend_v1(
    %(now_ms)s, %(tenant)s, %(memory_ms)s, %(names)s::text[], %(amounts)s::float8[], %(at_least)s::float8[],
    %(capacities)s::float8[], %(rates)s::float8[], %(held)s::text[], %(most)s, %(ttl_ms)s, %(released)s::text[]
);
