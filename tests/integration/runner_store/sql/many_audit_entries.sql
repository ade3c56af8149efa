INSERT INTO audit_log (id, actor_id, action, target, details)
SELECT new_id(), md5((n % 5)::text)::uuid, 'action ' || n % 10, 'target ' || n % 500, '{}'
FROM generate_series(1, 5000) AS n;
