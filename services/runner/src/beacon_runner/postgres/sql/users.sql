-- name: principal
-- The user and the scopes of a key.
SELECT k.id AS key_id, k.hint, k.scopes, k.expires_at, u.id AS user_id, u.name, u.tier, u.credit, u.weight
FROM api_keys k
JOIN users u ON u.id = k.user_id
WHERE
    k.hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
    AND u.disabled_at IS NULL;

-- name: ensure_user
-- A user by name, created if there is none; an existing one keeps its tier.
INSERT INTO users (id, name, tier)
VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name
RETURNING id, name, tier, weight, credit, created_at, disabled_at, xmax = 0 AS created;

-- name: add_user
-- A new user; nothing when the name is taken.
INSERT INTO users (id, name, tier, weight)
VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO NOTHING
RETURNING id, name, tier, weight, credit, created_at, disabled_at;

-- name: change_user
-- Another tier or weight, or disabled and enabled; null changes nothing.
UPDATE users
SET
    tier = coalesce($2, tier),
    weight = coalesce($4, weight),
    disabled_at = CASE
        WHEN $3::boolean IS NULL THEN disabled_at
        WHEN $3 THEN coalesce(disabled_at, now())
    END
WHERE id = $1
RETURNING id, name, tier, weight, credit, created_at, disabled_at;

-- name: lock_user
-- Lock one user until the transaction ends.
SELECT id, name, tier, weight, credit, created_at, disabled_at FROM users
WHERE id = $1 AND deleted_at IS NULL
FOR UPDATE;

-- name: user
-- One user.
SELECT id, name, tier, weight, credit, created_at, disabled_at FROM users WHERE id = $1 AND deleted_at IS NULL;

-- name: users_page
-- Users by name, after a given one.
SELECT id, name, tier, weight, credit, created_at, disabled_at
FROM users
WHERE ($1::text IS NULL OR name > $1) AND deleted_at IS NULL
ORDER BY name
LIMIT $2;

-- name: add_key
-- A key of a user; nothing when the same key exists.
INSERT INTO api_keys (id, user_id, name, hint, hash, scopes, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (hash) DO NOTHING
RETURNING id, user_id, name, hint, scopes, created_at, expires_at, revoked_at;

-- name: keys_of_user
-- A user's keys, newest first.
SELECT id, user_id, name, hint, scopes, created_at, expires_at, revoked_at
FROM api_keys
WHERE user_id = $1
ORDER BY id DESC;

-- name: revoke_key
-- A key stops working; doing it twice changes nothing.
UPDATE api_keys
SET revoked_at = coalesce(revoked_at, now())
WHERE id = $1 AND user_id = $2
RETURNING id, user_id, name, hint, scopes, created_at, expires_at, revoked_at;
