-- $1 jobs of ten users, a second apart, of all kinds and states; the newest hundredth is live.
INSERT INTO jobs (
    id, user_id, created_at, finished_at, total, completed, failed, cancelled, state, kind, tier, class, original_class, name,
    model, labels, spec
)
SELECT
    id_at(at),
    ('00000000-0000-7000-8000-00000000000' || hash % 10)::uuid,
    at,
    CASE WHEN state NOT IN ('queued', 'scheduled') THEN at END,
    2,
    CASE state WHEN 'completed' THEN 2 WHEN 'partial' THEN 1 ELSE 0 END,
    CASE state WHEN 'failed' THEN 2 WHEN 'partial' THEN 1 ELSE 0 END,
    CASE WHEN state IN ('cancelled', 'expired') THEN 2 ELSE 0 END,
    state,
    CASE WHEN hash % 7 = 0 THEN 'matrix' WHEN hash % 2003 = 1 THEN 'pipeline' ELSE 'generation' END,
    'free',
    'low',
    'low',
    CASE WHEN hash % 11 = 0 THEN 'Run ' || n ELSE '' END,
    CASE WHEN hash % 7 = 0 THEN NULL WHEN hash % 1009 = 3 THEN 'rare' ELSE 'model-' || hash % 5 END,
    CASE
        WHEN hash % 7 = 0 AND hash % 997 = 2 THEN '{"models": ["rare", "model-1"], "tags": ["few"]}'::jsonb
        WHEN hash % 7 = 0 THEN '{"models": ["model-1", "model-2"], "tags": ["common"]}'::jsonb
        WHEN hash % 3 = 0 THEN '{"tags": ["common"], "metadata": {"team": "blue"}}'::jsonb
    END,
    '{"model": "model-1", "region": "US", "input": {"prompt": "a cat"}}'
FROM (
    SELECT
        n,
        now() - (($1 - n) || ' seconds')::interval AS at,
        abs(hashint4(n)::bigint) AS hash,
        CASE
            WHEN n > $1 * 0.99 THEN CASE WHEN n % 50 = 0 THEN 'scheduled' ELSE 'queued' END
            WHEN n % 31 = 0 THEN 'failed'
            WHEN n % 61 = 0 THEN 'cancelled'
            WHEN n % 151 = 0 THEN 'partial'
            WHEN n = 5 THEN 'expired'
            ELSE 'completed'
        END AS state
    FROM generate_series(1, $1::integer) AS n
) AS made;
