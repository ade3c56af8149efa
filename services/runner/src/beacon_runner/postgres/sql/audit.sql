-- name: add_entry
-- Record a change. A trigger refuses to change or delete entries.
INSERT INTO audit_log (id, actor_id, key, action, target, details)
VALUES (new_id(), $1, $2, $3, $4, $5);

-- name: page
-- Entries, newest first, before a given one; null filters select everything. Names are not stored with the entries, so
-- that the name of a deleted user is gone. The other filters as a CASE, because the planner then expects that half of
-- the entries match, and walks along an index from the newest one.
SELECT a.id, a.at, a.actor_id, coalesce(u.name, 'system') AS actor, a.key, a.action, a.target, a.details
FROM audit_log a
LEFT JOIN users u ON u.id = a.actor_id
WHERE
    a.id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    AND CASE
        WHEN ($2::uuid IS NULL OR a.actor_id = $2)
        AND ($3::text IS NULL OR a.action = $3)
        AND ($4::text IS NULL OR a.target = $4)
        AND ($5::timestamptz IS NULL OR a.at >= $5)
        AND ($6::timestamptz IS NULL OR a.at < $6)
            THEN true
        ELSE false
    END
ORDER BY a.id DESC
LIMIT $7;

-- name: page_by_action
-- The same of an action.
SELECT a.id, a.at, a.actor_id, coalesce(u.name, 'system') AS actor, a.key, a.action, a.target, a.details
FROM audit_log a
LEFT JOIN users u ON u.id = a.actor_id
WHERE
    (a.action, a.id) < ($3::text, coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    AND (a.action, a.id) >= ($3::text, '00000000-0000-0000-0000-000000000000')
    AND CASE
        WHEN ($2::uuid IS NULL OR a.actor_id = $2)
        AND ($4::text IS NULL OR a.target = $4)
        AND ($5::timestamptz IS NULL OR a.at >= $5)
        AND ($6::timestamptz IS NULL OR a.at < $6)
            THEN true
        ELSE false
    END
ORDER BY a.action DESC, a.id DESC
LIMIT $7;

-- name: page_by_actor
-- The same of an actor.
SELECT a.id, a.at, a.actor_id, coalesce(u.name, 'system') AS actor, a.key, a.action, a.target, a.details
FROM audit_log a
LEFT JOIN users u ON u.id = a.actor_id
WHERE
    a.actor_id IS NOT NULL AND (a.actor_id, a.id) < ($2::uuid, coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    AND (a.actor_id, a.id) >= ($2::uuid, '00000000-0000-0000-0000-000000000000')
    AND CASE
        WHEN ($3::text IS NULL OR a.action = $3)
        AND ($4::text IS NULL OR a.target = $4)
        AND ($5::timestamptz IS NULL OR a.at >= $5)
        AND ($6::timestamptz IS NULL OR a.at < $6)
            THEN true
        ELSE false
    END
ORDER BY a.actor_id DESC, a.id DESC
LIMIT $7;

-- name: page_by_target
-- The same of a target.
SELECT a.id, a.at, a.actor_id, coalesce(u.name, 'system') AS actor, a.key, a.action, a.target, a.details
FROM audit_log a
LEFT JOIN users u ON u.id = a.actor_id
WHERE
    (a.target, a.id) < ($4::text, coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    AND (a.target, a.id) >= ($4::text, '00000000-0000-0000-0000-000000000000')
    AND CASE
        WHEN ($2::uuid IS NULL OR a.actor_id = $2)
        AND ($3::text IS NULL OR a.action = $3)
        AND ($5::timestamptz IS NULL OR a.at >= $5)
        AND ($6::timestamptz IS NULL OR a.at < $6)
            THEN true
        ELSE false
    END
ORDER BY a.target DESC, a.id DESC
LIMIT $7;
