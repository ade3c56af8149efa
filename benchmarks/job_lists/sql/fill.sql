-- $1 jobs of 1,001 users from 30 days; the user $2 has half of them. Ids begin with the time, like those of the service.
INSERT INTO jobs (
    id, user_id, created_at, queued_at, finished_at, total, completed, failed, state, kind, tier, class, original_class, name,
    model, labels, spec
)
SELECT
    (
        lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3)
        || '8' || substr(md5(n::text), 4, 15)
    )::uuid,
    CASE WHEN n % 2 = 0 THEN $2::uuid ELSE md5((hashint4(n) % 1000)::text)::uuid END,
    at,
    at,
    CASE WHEN live THEN NULL ELSE at + interval '1 minute' END,
    1,
    CASE WHEN live OR failed THEN 0 ELSE 1 END,
    CASE WHEN failed AND NOT live THEN 1 ELSE 0 END,
    CASE WHEN live THEN 'queued' WHEN failed THEN 'failed' ELSE 'completed' END,
    CASE WHEN hash % 10 = 0 THEN 'matrix' ELSE 'generation' END,
    'free',
    'low',
    'low',
    CASE WHEN hash % 10 = 1 THEN 'run ' || n ELSE '' END,
    CASE WHEN hash % 10 = 0 THEN NULL ELSE 'model-' || hash % 12 END,
    CASE
        WHEN hash % 5000 = 7 THEN '{"tags": ["rare"]}'::jsonb
        WHEN hash % 10 = 2 THEN '{"tags": ["common"], "metadata": {"team": "blue"}}'::jsonb
        WHEN hash % 10 > 5 THEN '{"tags": ["common"]}'::jsonb
    END,
    '{"model": "model-1", "region": "US", "input": {"prompt": "a cat"}}'
FROM (
    SELECT
        n,
        now() - interval '30 days' * (1 - n / $1::double precision) AS at,
        n > $1 - 2000 AS live,
        abs(hashint4(n)::bigint) AS hash,
        abs(hashint4(n)::bigint) % 100 < 3 AS failed
    FROM generate_series(1, $1::integer) AS n
) AS made
