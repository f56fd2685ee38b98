-- What was deleted has no items that can be found; from now on that takes its rows away. What is left are additions to
-- conversations, which are born deleted: is_in_context_v1.
DELETE FROM item WHERE place IN (SELECT place FROM node WHERE deleted);

-- remove_v1 that takes the response's items out of the index.
CREATE FUNCTION remove_v2(
    given_ms bigint, of_tenant text, of_id text, expected_version bigint, statuses text[], unless_statuses text[],
    fence_session text, fence_token bigint
) RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    answer write_outcome_v1 := remove_v1(given_ms, of_tenant, of_id, expected_version, statuses, unless_statuses,
        fence_session, fence_token);
BEGIN
    IF answer.outcome = 'stored' THEN
        DELETE FROM item WHERE place = answer.place;
    END IF;
    RETURN answer;
END
$$;

-- The items by which an addition to a conversation can be found.
CREATE FUNCTION index_addition_v1(of_tenant text, of_id text, digests bytea[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM index_items_v1(of_tenant, place, digests) FROM node WHERE tenant = of_tenant AND id = of_id;
END
$$;

-- create_conversation_v1 whose first items are found by their ids.
CREATE FUNCTION create_conversation_v2(
    given_ms bigint, of_tenant text, of_id text, new_metadata bytea, new_origin text, new_incarnation text,
    ttl_ms bigint, first draft_v1, digests bytea[]
) RETURNS TABLE (outcome text, metadata bytea, version bigint, created_at_ms bigint) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT * INTO outcome, metadata, version, created_at_ms FROM create_conversation_v1(
        given_ms, of_tenant, of_id, new_metadata, new_origin, new_incarnation, ttl_ms, first);
    IF outcome = 'made' AND first.id IS NOT NULL THEN
        PERFORM index_addition_v1(of_tenant, first.id, digests);
    END IF;
    RETURN NEXT;
END
$$;

-- add_items_v1 whose items are found by their ids.
CREATE FUNCTION add_items_v2(
    given_ms bigint, of_tenant text, of_id text, of_incarnation text, draft draft_v1, fence_token bigint, digests bytea[]
) RETURNS TABLE (outcome text, stored node) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    answer record;
BEGIN
    SELECT * INTO answer FROM add_items_v1(given_ms, of_tenant, of_id, of_incarnation, draft, fence_token);
    outcome := answer.outcome;
    stored := answer.stored;
    IF outcome = 'stored' THEN
        PERFORM index_addition_v1(of_tenant, draft.id, digests);
    END IF;
    RETURN NEXT;
END
$$;

-- Whether an addition stands in the context of the conversation that it was made to, and with it the item: whether it was
-- not taken out, and is on the way from the session's head to the root.
CREATE FUNCTION is_in_context_v1(of_tenant text, of_session text, of_place bigint, of_digest bytea, at_ms bigint)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    step bigint;
BEGIN
    IF EXISTS (
        SELECT FROM removed_item WHERE tenant = of_tenant AND conversation_id = of_session AND digest = of_digest
    ) THEN
        RETURN false;
    END IF;
    SELECT place INTO step FROM node
    WHERE tenant = of_tenant AND id = (SELECT head_id FROM session WHERE tenant = of_tenant AND id = of_session)
        AND (expires_at_ms IS NULL OR expires_at_ms > at_ms);
    WHILE step >> 24 <> of_place >> 24 LOOP
        SELECT forked_at INTO step FROM branch WHERE id = step >> 24;
    END LOOP;
    RETURN coalesce(step >= of_place, false);
END
$$;
