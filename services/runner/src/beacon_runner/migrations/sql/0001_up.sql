-- Users and their keys. Users are disabled, never deleted: their jobs and their ledger stay theirs.
CREATE TABLE users (
    id          uuid PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    tier        text NOT NULL, -- of the configuration; one that it does not have counts as its lowest
    credit      integer NOT NULL DEFAULT 0 CHECK (credit >= 0),
    weight      double precision NOT NULL DEFAULT 1 CHECK (weight > 0), -- of its share of GPU time in its tier
    disabled_at timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    id         uuid PRIMARY KEY,
    user_id    uuid NOT NULL REFERENCES users (id),
    name       text NOT NULL DEFAULT '',
    hint       text NOT NULL, -- the public prefix of the key, no part of the secret
    hash       bytea NOT NULL UNIQUE, -- SHA-256: keys are random and long, so stretching would add nothing
    scopes     text[] NOT NULL CHECK (scopes <@ ARRAY ['user', 'admin', 'service'] AND scopes <> '{}'),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz
);

CREATE INDEX api_keys_of_user ON api_keys (user_id);

-- One row per job. Columns are ordered by size and indexes are few, because a million jobs may wait.
-- No foreign key to users: it would cost a lookup for every job of a batch.
CREATE TABLE jobs (
    id              uuid NOT NULL,
    user_id         uuid NOT NULL,
    fence           bigint NOT NULL DEFAULT 0, -- grows with each claim and each takeover; guards every write
    created_at      timestamptz NOT NULL DEFAULT now(),
    queued_at       timestamptz NOT NULL DEFAULT now(), -- since when it waits for its current stage and attempt
    started_at      timestamptz, -- first claim
    finished_at     timestamptz, -- null exactly while the job is live
    next_attempt_at timestamptz, -- null exactly while its message belongs in a lane
    promoted_at     timestamptz,
    generation      integer NOT NULL DEFAULT 1, -- of its newest message
    event_seq       integer NOT NULL DEFAULT 1, -- number of its newest event
    total           integer NOT NULL,
    completed       integer NOT NULL DEFAULT 0,
    failed          integer NOT NULL DEFAULT 0,
    cancelled       integer NOT NULL DEFAULT 0,
    price_paid      integer NOT NULL DEFAULT 0,
    stage           smallint NOT NULL DEFAULT 0,
    stages          smallint NOT NULL DEFAULT 1,
    attempt         smallint NOT NULL DEFAULT 1, -- of the current stage
    deliveries      smallint NOT NULL DEFAULT 0, -- claims in a row without progress
    front           boolean NOT NULL DEFAULT false,
    batch           boolean NOT NULL DEFAULT false, -- the jobs of a batch share the first 27 digits of their ids
    state           text NOT NULL DEFAULT 'queued' CHECK (
        state IN ('queued', 'processing', 'retrying', 'completed', 'partial', 'failed', 'cancelled')
    ),
    kind            text NOT NULL,
    tier            text NOT NULL,
    class           text NOT NULL,
    original_class  text NOT NULL,
    lane            text, -- null is the lane of the user
    name            text NOT NULL DEFAULT '',
    spec            json NOT NULL, -- normalised and self-contained: what the configuration said at submission
    context         json, -- results of a pipeline's finished steps
    failure         json,
    worker          text,
    deferred        json, -- delay, reason and count while the router does not accept the job; else null
    idempotency_key text,
    request_hash    bytea,
    CONSTRAINT jobs_pkey PRIMARY KEY (id) WITH (fillfactor = 45), -- finishing a job adds an entry next to the old one
    CONSTRAINT jobs_live_until_finished CHECK (
        (finished_at IS NULL) = (state IN ('queued', 'processing', 'retrying'))
    )
)
-- A claim writes no indexed column, so with room on its page it touches no index. A claimed row is wider than a
-- waiting one, so less than half of a page is filled at first.
WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX jobs_live ON jobs (user_id, id) WHERE finished_at IS NULL;
CREATE INDEX jobs_ended ON jobs (user_id, id) WHERE finished_at IS NOT NULL;
-- By columns that a claim does not change, unlike the state.
CREATE INDEX jobs_not_completed ON jobs (user_id, id) WHERE finished_at IS NOT NULL AND failed + cancelled > 0;
CREATE INDEX jobs_by_arrival ON jobs (class, queued_at, id) WHERE finished_at IS NULL;
CREATE UNIQUE INDEX jobs_idempotency ON jobs (user_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- One row per execution that has started; the others follow from the job's spec.
CREATE TABLE executions (
    job_id        uuid NOT NULL,
    started_at    timestamptz,
    finished_at   timestamptz,
    ordinal       integer NOT NULL, -- its index in the stage's plan
    queued_s      real,
    load_s        real,
    run_s         real,
    stage         smallint NOT NULL,
    attempt       smallint NOT NULL,
    retries       smallint NOT NULL DEFAULT 0, -- asked for by the user, one at a time
    state         text NOT NULL CHECK (state IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    item          text NOT NULL,
    model         text NOT NULL,
    region        text NOT NULL,
    actual_region text,
    backend       text,
    output        json,
    response      json, -- the complete response of an OpenAI-compatible backend
    failure       json,
    CONSTRAINT executions_pkey PRIMARY KEY (job_id, stage, item, model, region)
) WITH (fillfactor = 85);

-- Earlier attempts of executions; the newest is in executions.
CREATE TABLE attempts (
    job_id        uuid NOT NULL,
    started_at    timestamptz,
    finished_at   timestamptz,
    ordinal       integer NOT NULL,
    queued_s      real,
    load_s        real,
    run_s         real,
    stage         smallint NOT NULL,
    attempt       smallint NOT NULL,
    state         text NOT NULL,
    actual_region text,
    backend       text,
    failure       json,
    CONSTRAINT attempts_pkey PRIMARY KEY (job_id, stage, ordinal, attempt)
);

-- Messages to publish to Redis; the publisher deletes them after the push.
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id     uuid NOT NULL,
    user_id    uuid NOT NULL,
    not_before timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    generation integer NOT NULL,
    stage      smallint NOT NULL,
    attempt    smallint NOT NULL,
    front      boolean NOT NULL DEFAULT false,
    batch      boolean NOT NULL DEFAULT false,
    topic      text NOT NULL DEFAULT 'jobs' CHECK (topic IN ('jobs', 'jobs:retry', 'jobs:dead')),
    class      text NOT NULL,
    lane       text -- null is the lane of the user
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

CREATE TABLE dead_letters (
    job_id  uuid PRIMARY KEY,
    died_at timestamptz NOT NULL DEFAULT now(),
    stage   smallint NOT NULL,
    attempt smallint NOT NULL,
    reason  text NOT NULL,
    failure json NOT NULL
);

CREATE INDEX dead_letters_newest ON dead_letters (died_at, job_id);

-- One row per transaction that changed the job: its events in order; seq is the number of the last of them.
CREATE TABLE job_events (
    job_id uuid NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    seq    integer NOT NULL,
    events json NOT NULL,
    CONSTRAINT job_events_pkey PRIMARY KEY (job_id, seq)
);

CREATE TABLE credit_ledger (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    uuid NOT NULL REFERENCES users (id),
    job_id     uuid,
    refunds    bigint UNIQUE REFERENCES credit_ledger (id), -- a payment is refunded once
    created_at timestamptz NOT NULL DEFAULT now(),
    amount     integer NOT NULL CHECK (amount <> 0),
    balance    integer NOT NULL CHECK (balance >= 0), -- after this entry
    ran_before integer NOT NULL DEFAULT 0, -- runs of the job when it was paid for
    entry      text NOT NULL CHECK (entry IN ('grant', 'skip', 'refund')),
    note       text NOT NULL DEFAULT ''
);

CREATE INDEX credit_ledger_of_user ON credit_ledger (user_id, id);
CREATE INDEX credit_ledger_of_job ON credit_ledger (job_id) WHERE job_id IS NOT NULL;

-- The bytes are in the file store, under a name that the user's and the file's id determine.
CREATE TABLE files (
    id           uuid PRIMARY KEY,
    user_id      uuid NOT NULL REFERENCES users (id),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz, -- null: kept until it is deleted
    size         bigint NOT NULL CHECK (size >= 0),
    sha256       bytea NOT NULL,
    name         text NOT NULL,
    content_type text NOT NULL -- recognised from the content
);

CREATE INDEX files_of_user ON files (user_id, id) INCLUDE (size);
CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;

-- Keys that all processes share and nobody has to configure.
CREATE TABLE secrets (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

INSERT INTO secrets (name, value)
VALUES ('file_urls', sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea));

-- Classes that an operator has paused; mirrored to Redis, and again after it was emptied.
CREATE TABLE paused_classes (
    class     text PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

-- Cancelled jobs with executions that may wait or run at a router. A row is deleted when every router has confirmed.
-- Few rows at a time: no index but the key.
CREATE TABLE router_cancels (
    job_id      uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT now(),
    next_try_at timestamptz NOT NULL
);

-- The smallest id that a job made at this moment can have: ids (UUIDv7) begin with the time.
CREATE FUNCTION id_at(moment timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (
    lpad(to_hex((extract(EPOCH FROM moment) * 1000)::bigint), 12, '0') || '00000000000000000000'
)::uuid;

-- The number of GPU runs of a job, whatever their result. It never falls: attempts keep the retried ones.
CREATE FUNCTION runs_of(job uuid) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (
    SELECT count(*) FROM executions e WHERE e.job_id = job AND (e.state = 'completed' OR e.backend IS NOT NULL)
) + (
    SELECT count(*) FROM attempts a WHERE a.job_id = job AND a.backend IS NOT NULL
);
