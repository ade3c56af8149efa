-- name: add_entry
-- Record a change. A trigger refuses to change or delete entries.
INSERT INTO audit_log (id, actor_id, key, action, target, details)
VALUES (new_id(), $1, $2, $3, $4, $5);

-- name: page
-- Entries, newest first, before a given one; null filters select everything. Names are not stored with the entries, so
-- that the name of a deleted user is gone.
SELECT a.id, a.at, a.actor_id, coalesce(u.name, 'system') AS actor, a.key, a.action, a.target, a.details
FROM audit_log a
LEFT JOIN users u ON u.id = a.actor_id
WHERE
    ($1::uuid IS NULL OR a.id < $1)
    AND ($2::uuid IS NULL OR a.actor_id = $2)
    AND ($3::text IS NULL OR a.action = $3)
    AND ($4::text IS NULL OR a.target = $4)
    AND ($5::timestamptz IS NULL OR a.at >= $5)
    AND ($6::timestamptz IS NULL OR a.at < $6)
ORDER BY a.id DESC
LIMIT $7;
