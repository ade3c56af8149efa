-- name: lock_user
-- Serialises the new endpoints of one user, so that their number is exact.
SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE;

-- name: count_endpoints
-- The endpoints of a user that have a URL.
SELECT count(*) FROM webhook_endpoints WHERE user_id = $1 AND url IS NOT NULL AND deleted_at IS NULL;

-- name: add_endpoint
-- A new endpoint; nothing if it has no URL and the user has one without.
INSERT INTO webhook_endpoints (id, user_id, url, events, description, secret)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (user_id) WHERE url IS NULL AND deleted_at IS NULL DO NOTHING
RETURNING id, user_id, url, events, description, created_at, disabled_at, disabled_reason, previous_until;

-- name: endpoints_of_user
-- A user's endpoints, oldest first.
SELECT id, user_id, url, events, description, created_at, disabled_at, disabled_reason, previous_until
FROM webhook_endpoints
WHERE user_id = $1 AND deleted_at IS NULL
ORDER BY id;

-- name: endpoint
-- One endpoint, of one user or of any.
SELECT id, user_id, url, events, description, created_at, disabled_at, disabled_reason, previous_until
FROM webhook_endpoints
WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND deleted_at IS NULL;

-- name: lock_own_endpoint
-- Before its user changes it: whether an administrator has disabled it.
SELECT locked FROM webhook_endpoints WHERE id = $1 AND user_id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: lock_endpoint
-- Before its deliveries, in the order of a change: otherwise the two could wait for each other.
SELECT id FROM webhook_endpoints WHERE id = $1 FOR NO KEY UPDATE;

-- name: change_endpoint
-- Change what is not null. A new URL does not apply to the endpoint that has none. $8: by an administrator, whose
-- disabling replaces an earlier one.
UPDATE webhook_endpoints
SET
    url = CASE WHEN url IS NOT NULL THEN coalesce($3, url) END,
    events = coalesce($4, events),
    description = coalesce($5, description),
    disabled_at = CASE
        WHEN $6::boolean IS NULL THEN disabled_at
        WHEN $6 THEN coalesce(disabled_at, now())
    END,
    disabled_reason = CASE
        WHEN $6::boolean IS NULL THEN disabled_reason
        WHEN $6 AND $8 AND NOT locked THEN $7
        WHEN $6 THEN coalesce(disabled_reason, $7)
    END,
    locked = CASE WHEN $6::boolean IS NULL THEN locked ELSE $6 AND (locked OR $8) END
WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND deleted_at IS NULL
RETURNING id, user_id, url, events, description, created_at, disabled_at, disabled_reason, previous_until;

-- name: end_deliveries
-- The pending deliveries of an endpoint that was disabled.
UPDATE webhook_deliveries
SET state = 'failed', due_at = NULL, leased = false, fence = fence + 1
WHERE endpoint_id = $1 AND due_at IS NOT NULL;

-- name: rotate_secret
-- A new secret; the one before it signs too for $4 seconds.
UPDATE webhook_endpoints
SET secret = $3, previous_secret = secret, previous_until = now() + $4 * interval '1 second'
WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND deleted_at IS NULL
RETURNING id, user_id, url, events, description, created_at, disabled_at, disabled_reason, previous_until;

-- name: delete_endpoint
-- Hide an endpoint. It may have millions of deliveries, so `remove_ended` deletes them, and then the endpoint.
UPDATE webhook_endpoints
SET deleted_at = now(), disabled_at = now(), secret = '', previous_secret = NULL
WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND deleted_at IS NULL
RETURNING id, user_id, url, events, description, created_at, disabled_at, disabled_reason, previous_until;

-- name: add_test
-- A delivery that belongs to no job, due at once.
INSERT INTO webhook_deliveries (id, endpoint_id, due_at, type, data)
VALUES (new_id(), $1, now(), $2, '{}')
RETURNING id, endpoint_id, job_id, type, $3::text AS url, state, created_at, due_at, data, attempts;

-- name: deliveries_page
-- Deliveries of an endpoint, newest first, before a given one.
SELECT
    d.id, d.endpoint_id, d.job_id, d.type, coalesce(d.url, e.url) AS url, d.state, d.created_at, d.due_at, d.data,
    d.attempts
FROM webhook_deliveries d
JOIN webhook_endpoints e ON e.id = d.endpoint_id
WHERE d.endpoint_id = $1 AND ($2::uuid IS NULL OR d.id < $2)
ORDER BY d.id DESC
LIMIT $3;

-- name: replay
-- Start the attempts of a delivery again; the fence makes the result of one that runs now have no effect.
UPDATE webhook_deliveries d
SET state = 'pending', due_at = now(), attempt = 0, leased = false, fence = d.fence + 1
FROM webhook_endpoints e
WHERE d.id = $2 AND d.endpoint_id = $1 AND e.id = d.endpoint_id AND e.deleted_at IS NULL
RETURNING
    d.id, d.endpoint_id, d.job_id, d.type, coalesce(d.url, e.url) AS url, d.state, d.created_at, d.due_at, d.data,
    d.attempts;

-- name: notify
-- Wake the relay when the transaction commits.
NOTIFY webhooks;

-- name: lock_leases
-- One relay leases at a time: the next one counts the leases of this one.
SELECT pg_advisory_xact_lock(hashtextextended('beacon.webhook_leases', 0));

-- name: lease
-- Due deliveries, at most $2 of one endpoint at a time in all processes together; endpoints with the fewest leases
-- first, so that one that is slow delays no other. A lease that has ended is due again. A deleted endpoint has no secret:
-- deliveries that were added while it was deleted are removed with the others.
WITH RECURSIVE waiting (endpoint_id) AS (
    -- One index descent for each endpoint with pending deliveries, however many it has.
    (SELECT d.endpoint_id FROM webhook_deliveries d WHERE d.due_at IS NOT NULL ORDER BY d.endpoint_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT d.endpoint_id
        FROM webhook_deliveries d
        WHERE d.due_at IS NOT NULL AND d.endpoint_id > w.endpoint_id
        ORDER BY d.endpoint_id
        LIMIT 1
    )
    FROM waiting w
    WHERE w.endpoint_id IS NOT NULL
), chosen AS (
    SELECT due.id, due.due_at
    FROM waiting w
    JOIN webhook_endpoints e ON e.id = w.endpoint_id AND e.deleted_at IS NULL
    CROSS JOIN LATERAL (
        SELECT count(*) AS leases
        FROM webhook_deliveries d
        WHERE d.endpoint_id = w.endpoint_id AND d.leased AND d.due_at > now()
    ) AS open
    CROSS JOIN LATERAL (
        SELECT d.id, d.due_at
        FROM webhook_deliveries d
        WHERE d.endpoint_id = w.endpoint_id AND d.due_at <= now()
        ORDER BY d.due_at
        LIMIT greatest($2::bigint - open.leases, 0)
        FOR UPDATE SKIP LOCKED
    ) AS due
    ORDER BY open.leases, due.due_at
    LIMIT $1
), leased AS (
    UPDATE webhook_deliveries d
    SET leased = true, fence = d.fence + 1, due_at = now() + $3 * interval '1 second'
    FROM chosen c
    WHERE d.id = c.id
    RETURNING
        d.id, d.endpoint_id, d.job_id, d.type, d.url, d.data, d.created_at, d.attempt, d.fence,
        extract(EPOCH FROM now() - c.due_at)::double precision AS late_s
)
SELECT
    l.id, l.endpoint_id, l.job_id, l.type, coalesce(l.url, e.url) AS url, l.url IS NOT NULL AS own_url, l.data,
    l.created_at, l.attempt + 1 AS attempt, l.fence, l.late_s, e.secret,
    CASE WHEN e.previous_until > now() THEN e.previous_secret END AS previous_secret
FROM leased l
JOIN webhook_endpoints e ON e.id = l.endpoint_id;

-- name: record
-- The result of an attempt, unless another process has leased the delivery since.
UPDATE webhook_deliveries
SET
    state = $3,
    due_at = CASE WHEN $3 = 'pending' THEN now() + $4::double precision * interval '1 second' END,
    leased = false,
    attempt = attempt + 1,
    attempts = (
        SELECT json_agg(one.attempt ORDER BY one.place)
        FROM (
            SELECT a.attempt, a.place
            FROM json_array_elements(
                (webhook_deliveries.attempts::jsonb || $5::json::jsonb)::json
            ) WITH ORDINALITY AS a (attempt, place)
            ORDER BY a.place DESC
            LIMIT $6
        ) AS one
    )
WHERE id = $1 AND fence = $2 AND leased
RETURNING id;

-- name: release
-- End leases without an attempt.
UPDATE webhook_deliveries d
SET leased = false, due_at = now()
FROM unnest($1::uuid[], $2::integer[]) AS given (id, fence)
WHERE d.id = given.id AND d.fence = given.fence AND d.leased;

-- name: remove_ended
-- Delete deliveries that have ended and are older than $1 seconds, and those of deleted endpoints.
WITH old AS (
    (
        SELECT id
        FROM webhook_deliveries
        WHERE id < id_at(now() - $1 * interval '1 second') AND due_at IS NULL
        ORDER BY id
        LIMIT $2
    )
    UNION
    (
        SELECT d.id
        FROM webhook_endpoints e
        JOIN webhook_deliveries d ON d.endpoint_id = e.id
        WHERE e.deleted_at IS NOT NULL
        LIMIT $2
    )
)
DELETE FROM webhook_deliveries d USING old WHERE d.id = old.id;

-- name: remove_endpoints
-- Remove deleted endpoints that have no deliveries any more.
DELETE FROM webhook_endpoints e
WHERE e.deleted_at IS NOT NULL AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.endpoint_id = e.id);
