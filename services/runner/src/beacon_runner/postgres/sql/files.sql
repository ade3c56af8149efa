-- name: lock_owner
-- Serialises the uploads of one user, so that their sum is exact.
SELECT id FROM users WHERE id = $1 FOR UPDATE;

-- name: used_bytes
-- The bytes of all files of a user.
SELECT coalesce(sum(size), 0)::bigint FROM files WHERE user_id = $1;

-- name: add_file
-- Record an uploaded file, which expires after $7 seconds.
INSERT INTO files (id, user_id, name, content_type, size, sha256, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, now() + $7 * interval '1 second')
RETURNING id, user_id, name, content_type, size, sha256, created_at, expires_at;

-- name: file
-- One file that has not expired, of one user or of any.
SELECT id, user_id, name, content_type, size, sha256, created_at, expires_at
FROM files
WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND (expires_at IS NULL OR expires_at > now());

-- name: files_page
-- A user's files that have not expired, newest first, before a given one.
SELECT id, user_id, name, content_type, size, sha256, created_at, expires_at
FROM files
WHERE user_id = $1 AND ($2::uuid IS NULL OR id < $2) AND (expires_at IS NULL OR expires_at > now())
ORDER BY id DESC
LIMIT $3;

-- name: expired_files
-- Files past their expiry, oldest first.
SELECT id, user_id, name, content_type, size, sha256, created_at, expires_at
FROM files
WHERE expires_at < now()
ORDER BY expires_at
LIMIT $1;

-- name: remove_files
-- Delete records of files.
DELETE FROM files WHERE id = ANY ($1::uuid[]);

-- name: unknown_files
-- Of the given ids, those without a record.
SELECT given.id
FROM unnest($1::uuid[]) AS given (id)
WHERE NOT EXISTS (SELECT FROM files f WHERE f.id = given.id);

-- name: url_secret
-- The key with which addresses of files are signed.
SELECT value FROM secrets WHERE name = 'file_urls';
