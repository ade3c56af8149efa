-- Cancelled jobs of which something may still wait or run at a router: a row is here until every router was told,
-- whichever process lives to do it. Few at a time: no index beside the key.
CREATE TABLE router_cancels (
    job_id      uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT now(),
    next_try_at timestamptz NOT NULL
);
