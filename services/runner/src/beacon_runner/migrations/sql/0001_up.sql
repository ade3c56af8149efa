-- Users and their keys.
CREATE TABLE users (
    id          uuid PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    tier        text NOT NULL, -- of the configuration; one that it does not have counts as its lowest
    credit      integer NOT NULL DEFAULT 0 CHECK (credit >= 0),
    weight      double precision NOT NULL DEFAULT 1 CHECK (weight > 0), -- of its share of GPU time in its tier
    disabled_at timestamptz,
    deleted_at  timestamptz, -- its data is deleted; the row stays without a name for the ledger
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
    key_id          uuid, -- of the submission
    fence           bigint NOT NULL DEFAULT 0, -- grows with each claim and each takeover; guards every write
    created_at      timestamptz NOT NULL DEFAULT now(),
    queued_at       timestamptz NOT NULL DEFAULT now(), -- since when it waits for its current stage and attempt
    started_at      timestamptz, -- first start of an execution on a GPU
    finished_at     timestamptz, -- null exactly while the job is live
    next_attempt_at timestamptz, -- null while its message belongs in a lane, or it waits for a limit of its user
    promoted_at     timestamptz,
    not_before      timestamptz, -- as submitted
    expires_at      timestamptz,
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
    scheduled       boolean NOT NULL DEFAULT false, -- its first state was `scheduled`
    state           text NOT NULL DEFAULT 'queued' CHECK (
        state IN (
            'scheduled', 'queued', 'processing', 'retrying', 'completed', 'partial', 'failed', 'cancelled', 'expired'
        )
    ),
    outcome         text GENERATED ALWAYS AS (CASE WHEN finished_at IS NOT NULL THEN state END) STORED,
    kind            text NOT NULL,
    tier            text NOT NULL,
    class           text NOT NULL,
    original_class  text NOT NULL,
    lane            text, -- null is the lane of the user
    name            text NOT NULL DEFAULT '',
    model           text, -- null if it has several: these are in `labels`
    labels          jsonb, -- tags, metadata and models; null without any
    spec            json NOT NULL, -- normalised and self-contained: what the configuration said at submission
    context         json, -- results of a pipeline's finished steps
    failure         json,
    worker          text, -- null exactly while no worker holds the job
    deferred        json, -- delay, reason and count while the router does not accept the job; else null
    webhook         json, -- url and events; else null
    idempotency_key text,
    request_hash    bytea,
    CONSTRAINT jobs_pkey PRIMARY KEY (id) WITH (fillfactor = 45), -- finishing a job adds an entry next to the old one
    CONSTRAINT jobs_live_until_finished CHECK (
        (finished_at IS NULL) = (state IN ('scheduled', 'queued', 'processing', 'retrying'))
    )
)
-- A claim writes no indexed column, so with room on its page it touches no index. A claimed row is wider than a
-- waiting one, so less than half of a page is filled at first.
WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX jobs_live ON jobs (user_id, id) WHERE finished_at IS NULL;
CREATE INDEX jobs_ended ON jobs (user_id, id) WHERE finished_at IS NOT NULL;
-- By columns that a claim does not change, unlike the state; `outcome` is null while a job is live.
CREATE INDEX jobs_not_completed ON jobs (user_id, id) WHERE finished_at IS NOT NULL AND failed + cancelled > 0;
CREATE INDEX jobs_by_arrival ON jobs (class, queued_at, id) WHERE finished_at IS NULL;
-- For the filters of the list of jobs. Most jobs are generations without a name.
CREATE INDEX jobs_by_model ON jobs (model, user_id, id) WHERE model IS NOT NULL;
CREATE INDEX jobs_by_kind ON jobs (kind, user_id, id) WHERE kind <> 'generation';
CREATE INDEX jobs_by_name ON jobs (user_id, lower(name) COLLATE "C", id) WHERE name <> '';
CREATE INDEX jobs_of_all_by_name ON jobs (lower(name) COLLATE "C", id) WHERE name <> '';
CREATE INDEX jobs_by_outcome ON jobs (outcome, user_id, id) WHERE outcome <> 'completed';
CREATE INDEX jobs_of_all_by_outcome ON jobs (outcome, id) WHERE outcome <> 'completed';
CREATE INDEX jobs_to_expire ON jobs (expires_at) WHERE expires_at IS NOT NULL AND finished_at IS NULL;
CREATE UNIQUE INDEX jobs_idempotency ON jobs (user_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- The index of `jobs.labels`: a row per tag, pair of metadata and model. The rows of a job without labels are none.
CREATE TABLE job_labels (
    user_id uuid NOT NULL,
    job_id  uuid NOT NULL,
    label   bigint NOT NULL, -- a hash, `label_key`; queries compare `jobs.labels` too
    CONSTRAINT job_labels_pkey PRIMARY KEY (user_id, label, job_id)
);

CREATE INDEX job_labels_of_all ON job_labels (label, job_id);

-- When jobs in state `scheduled` start; a row is deleted at that time.
CREATE TABLE scheduled_starts (
    job_id    uuid PRIMARY KEY,
    starts_at timestamptz NOT NULL
);

CREATE INDEX scheduled_starts_by_time ON scheduled_starts (starts_at);

-- Jobs in state `scheduled` that wait until a limit of their user allows them. An admitted one counts for the user's
-- hour from `admitted_at`, and so does a deleted job, which has no other row; an hour later the row is deleted.
CREATE TABLE limit_waits (
    user_id     uuid NOT NULL,
    job_id      uuid NOT NULL,
    admitted_at timestamptz,
    deleted     boolean NOT NULL DEFAULT false,
    CONSTRAINT limit_waits_pkey PRIMARY KEY (user_id, job_id)
);

CREATE INDEX limit_waits_waiting ON limit_waits (user_id, job_id) WHERE admitted_at IS NULL;
CREATE INDEX limit_waits_admitted ON limit_waits (admitted_at) WHERE admitted_at IS NOT NULL;

-- One row per execution that has started; the others follow from the job's spec.
CREATE TABLE executions (
    job_id        uuid NOT NULL,
    started_at    timestamptz,
    finished_at   timestamptz,
    ordinal       integer NOT NULL, -- its index in the stage's plan
    queued_s      real,
    load_s        real,
    run_s         real,
    tokens_in     integer, -- as the backend reports them
    tokens_out    integer,
    output_bytes  bigint, -- with its files
    stage         smallint NOT NULL,
    attempt       smallint NOT NULL,
    retries       smallint NOT NULL DEFAULT 0, -- asked for by the user, one at a time
    state         text NOT NULL CHECK (
        state IN ('pending', 'queued', 'running', 'completed', 'failed', 'cancelled')
    ),
    item          text NOT NULL,
    model         text NOT NULL,
    region        text NOT NULL,
    actual_region text,
    backend       text,
    output        json,
    response      json, -- the complete response of an OpenAI-compatible backend
    failure       json,
    remote        json, -- backend and run id while a run may go on at a backend that is asked for its result
    progress_at   timestamptz,
    progress_seq  integer, -- number of its newest EXECUTION_PROGRESS event, which is kept here only
    progress      json, -- percent and message
    preview       text, -- a data URL, until the run ends
    CONSTRAINT executions_pkey PRIMARY KEY (job_id, stage, item, model, region)
) WITH (fillfactor = 85);

CREATE INDEX executions_progress ON executions (job_id, progress_seq) WHERE progress_seq IS NOT NULL;

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

-- The use of GPUs that is not in `usage_hourly` yet, written in the transaction of the results: the sums of the runs
-- that one statement records, for each user, key, model, region and tags.
CREATE TABLE usage_records (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT now(),
    user_id      uuid NOT NULL,
    key_id       uuid, -- null: unknown
    queued_s     double precision NOT NULL DEFAULT 0,
    load_s       double precision NOT NULL DEFAULT 0,
    run_s        double precision NOT NULL DEFAULT 0,
    tokens_in    bigint NOT NULL DEFAULT 0,
    tokens_out   bigint NOT NULL DEFAULT 0,
    output_bytes bigint NOT NULL DEFAULT 0,
    runs         bigint NOT NULL DEFAULT 1,
    failed       bigint NOT NULL DEFAULT 0,
    model        text NOT NULL,
    region       text NOT NULL,
    tags         text[] NOT NULL DEFAULT '{}'
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

CREATE INDEX usage_records_of_user ON usage_records (user_id, at);

-- Kept when the jobs are deleted.
CREATE TABLE usage_hourly (
    hour         timestamptz NOT NULL,
    user_id      uuid NOT NULL,
    key_id       uuid,
    queued_s     double precision NOT NULL,
    load_s       double precision NOT NULL,
    run_s        double precision NOT NULL,
    tokens_in    bigint NOT NULL,
    tokens_out   bigint NOT NULL,
    output_bytes bigint NOT NULL,
    runs         bigint NOT NULL,
    failed       bigint NOT NULL,
    model        text NOT NULL,
    region       text NOT NULL,
    tags         text[] NOT NULL, -- sorted
    CONSTRAINT usage_hourly_key UNIQUE NULLS NOT DISTINCT (user_id, hour, key_id, model, region, tags)
);

CREATE INDEX usage_hourly_by_hour ON usage_hourly (hour);

-- GPU seconds of a user since midnight (UTC): hourly sums, and records that are not rolled up yet.
CREATE FUNCTION gpu_seconds_today(owner uuid) RETURNS double precision
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (
    SELECT coalesce(sum(used.gpu_s), 0)
    FROM (
        SELECT h.load_s + h.run_s AS gpu_s
        FROM usage_hourly h
        WHERE h.user_id = owner AND h.hour >= date_trunc('day', now(), 'UTC')
        UNION ALL
        SELECT r.load_s + r.run_s
        FROM usage_records r
        WHERE r.user_id = owner AND r.at >= date_trunc('day', now(), 'UTC')
    ) AS used
);

-- Uploads, and outputs of jobs. The bytes are in the file store, under a name that the ids determine.
CREATE TABLE files (
    id           uuid PRIMARY KEY,
    user_id      uuid NOT NULL REFERENCES users (id),
    job_id       uuid, -- of an output: the job that made it
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz, -- null: it is an output, or a job uses it
    size         bigint NOT NULL CHECK (size >= 0),
    ordinal      integer, -- of an output: its execution
    stage        smallint,
    sha256       bytea NOT NULL,
    name         text NOT NULL,
    content_type text NOT NULL -- recognised from the content
);

CREATE INDEX files_of_user ON files (user_id, id) INCLUDE (size, expires_at);
CREATE INDEX files_of_job ON files (job_id, stage, ordinal, id) WHERE job_id IS NOT NULL;
CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;

-- The files that a job's input names: they are kept as long as the job.
CREATE TABLE job_files (
    job_id  uuid NOT NULL,
    file_id uuid NOT NULL REFERENCES files (id),
    CONSTRAINT job_files_pkey PRIMARY KEY (job_id, file_id)
);

CREATE INDEX job_files_of_file ON job_files (file_id);

-- Keys that all processes share and nobody has to configure.
CREATE TABLE secrets (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

INSERT INTO secrets (name, value)
VALUES ('file_urls', sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea));

-- When tasks that one process does at a time were started last, and how many of their runs were counted.
CREATE TABLE maintenance_runs (
    name       text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    counted    bigint NOT NULL DEFAULT 0
);

-- Actions on many jobs, done in batches from the newest job to the oldest, each in one transaction with the progress.
CREATE TABLE operations (
    id          uuid PRIMARY KEY,
    user_id     uuid NOT NULL, -- who may see it
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    below       uuid NOT NULL, -- jobs with this id and greater ones are done
    matched     integer NOT NULL DEFAULT 0,
    changed     integer NOT NULL DEFAULT 0,
    action      text NOT NULL CHECK (action IN ('cancel', 'resume', 'retry', 'delete', 'delete_user')),
    selection   json NOT NULL -- filters, or ids
);

CREATE INDEX operations_open ON operations (updated_at) WHERE finished_at IS NULL;
CREATE INDEX operations_finished ON operations (finished_at) WHERE finished_at IS NOT NULL;

-- Classes that an operator has paused; mirrored to Redis, and again after it was emptied.
CREATE TABLE paused_classes (
    class     text PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

-- Cancelled jobs with executions that may wait or run at a router. A row is deleted when every router has confirmed.
-- Few rows at a time: no index but the key.
CREATE TABLE router_cancels (
    job_id      uuid NOT NULL,
    fence       bigint NOT NULL, -- the first one that is not cancelled
    created_at  timestamptz NOT NULL DEFAULT now(),
    next_try_at timestamptz NOT NULL,
    resumed     boolean NOT NULL DEFAULT false, -- the job goes on; a run under an earlier fence is cancelled and counted
    CONSTRAINT router_cancels_pkey PRIMARY KEY (job_id, fence)
);

-- The fence of a new cancel: that of an unconfirmed one, if the job was stopped before and did not go on since.
CREATE FUNCTION cancel_fence(job uuid, fence bigint) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN coalesce((SELECT c.fence FROM router_cancels c WHERE c.job_id = job AND NOT c.resumed), fence);

-- Files expire with the last job that made or uses them, whichever statement deletes the job.
-- Each statement of the function has a new snapshot, so that links which others committed meanwhile count.
CREATE FUNCTION release_files() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    released uuid[];
BEGIN
    WITH unlinked AS (
        DELETE FROM job_files l USING deleted d WHERE l.job_id = d.id RETURNING l.file_id
    )
    SELECT array_agg(id) INTO released
    FROM (
        SELECT file_id AS id FROM unlinked
        UNION
        SELECT f.id FROM files f JOIN deleted d ON f.job_id = d.id
    ) AS either;
    IF released IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM files WHERE id = ANY (released) ORDER BY id FOR NO KEY UPDATE;
    UPDATE files f
    SET expires_at = now()
    WHERE
        f.id = ANY (released)
        AND NOT EXISTS (SELECT FROM job_files l WHERE l.file_id = f.id)
        AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = f.job_id);
    RETURN NULL;
END
$$;

CREATE TRIGGER jobs_release_files
AFTER DELETE ON jobs
REFERENCING OLD TABLE AS deleted
FOR EACH STATEMENT EXECUTE FUNCTION release_files();

-- The smallest id that a job made at this moment can have: ids (UUIDv7) begin with the time.
CREATE FUNCTION id_at(moment timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (
    lpad(to_hex((extract(EPOCH FROM moment) * 1000)::bigint), 12, '0') || '00000000000000000000'
)::uuid;

-- The key of a tag, a pair of metadata or a model in `job_labels`: 64 bits of a hash that is the same in all versions
-- of Postgres.
CREATE FUNCTION label_key(kind text, label text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ('x' || left(encode(sha256(convert_to(kind || ':' || label, 'UTF8')), 'hex'), 16))::bit(64)::bigint;

-- The keys of all labels of a job.
CREATE FUNCTION label_keys(labels jsonb) RETURNS SETOF bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
    SELECT label_key('tag', t) FROM jsonb_array_elements_text(labels -> 'tags') AS t
    UNION
    SELECT label_key('model', m) FROM jsonb_array_elements_text(labels -> 'models') AS m
    UNION
    SELECT label_key('metadata', p.key || '=' || p.value) FROM jsonb_each_text(labels -> 'metadata') AS p
$$;

-- The tags of a job, sorted.
CREATE FUNCTION tags_of(labels jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN labels -> 'tags' IS NULL THEN '{}'::text[]
    ELSE ARRAY (SELECT t FROM jsonb_array_elements_text(labels -> 'tags') AS t ORDER BY t)
END;

-- Whether a job matches the filters of the list of jobs; null is no filter. `labels`: tags and metadata that it must
-- have. `name`: the beginning of its name, in any case. As a CASE, because the planner then expects that half of the
-- jobs match, and walks along an index from the newest job; of the conditions it expects that hardly any does.
CREATE FUNCTION matches(
    job jobs, states text[], kind text, model text, labels jsonb, name text
) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN (states IS NULL OR job.state = ANY (states))
    AND (matches.kind IS NULL OR job.kind = matches.kind)
    AND (
        matches.model IS NULL OR job.model = matches.model
        OR job.labels @> jsonb_build_object('models', jsonb_build_array(matches.model))
    )
    AND (matches.labels IS NULL OR job.labels @> matches.labels)
    AND (matches.name IS NULL OR starts_with(lower(job.name), lower(matches.name)))
        THEN true
    ELSE false
END;

-- Whether a job waits, or waited until its end, for a limit of its user: it does not count for the limit.
CREATE FUNCTION waited_for_limit(job jobs) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN job.scheduled AND job.queued_at = job.created_at;

-- The number of GPU runs of a job, whatever their result. It never falls: attempts keep the retried ones.
CREATE FUNCTION runs_of(job uuid) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (
    SELECT count(*) FROM executions e WHERE e.job_id = job AND (e.state = 'completed' OR e.backend IS NOT NULL)
) + (
    SELECT count(*) FROM attempts a WHERE a.job_id = job AND a.backend IS NOT NULL
);

-- Where events of a user's jobs are sent. The one without a URL is for the webhook_url of jobs: it has their secret.
CREATE TABLE webhook_endpoints (
    id              uuid PRIMARY KEY,
    user_id         uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at      timestamptz NOT NULL DEFAULT now(),
    disabled_at     timestamptz,
    deleted_at      timestamptz, -- hidden and disabled since; removed when its deliveries are
    previous_until  timestamptz,
    locked          boolean NOT NULL DEFAULT false, -- disabled by an administrator: its user cannot change it
    events          text[] NOT NULL,
    url             text,
    description     text NOT NULL DEFAULT '',
    disabled_reason text,
    secret          text NOT NULL, -- not hashed: it signs
    previous_secret text -- signs too until previous_until
);

CREATE INDEX webhook_endpoints_of_user ON webhook_endpoints (user_id, id);
CREATE UNIQUE INDEX webhook_endpoints_of_jobs ON webhook_endpoints (user_id) WHERE url IS NULL AND deleted_at IS NULL;
CREATE INDEX webhook_endpoints_deleted ON webhook_endpoints (id) WHERE deleted_at IS NOT NULL;

-- One row per event and endpoint, written in the transaction of the event.
CREATE TABLE webhook_deliveries (
    id          uuid PRIMARY KEY, -- the webhook-id
    endpoint_id uuid NOT NULL REFERENCES webhook_endpoints (id) ON DELETE CASCADE,
    job_id      uuid, -- null: a test
    created_at  timestamptz NOT NULL DEFAULT now(),
    due_at      timestamptz, -- of the next attempt, or the end of the lease; null exactly when it has ended
    fence       integer NOT NULL DEFAULT 0, -- grows with each lease; guards the write of its result
    attempt     smallint NOT NULL DEFAULT 0, -- attempts that have ended, since the event or the replay
    leased      boolean NOT NULL DEFAULT false,
    state       text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    type        text NOT NULL,
    url         text, -- of the job; null is the URL of the endpoint
    data        json NOT NULL,
    attempts    json NOT NULL DEFAULT '[]', -- time, status, duration and error of the last ones
    CONSTRAINT webhook_deliveries_due_until_ended CHECK ((due_at IS NULL) = (state <> 'pending'))
);

CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_of_job ON webhook_deliveries (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_leased ON webhook_deliveries (endpoint_id) WHERE leased;

-- A new UUIDv7. The 12 bits after the version are the fraction of the millisecond, so that rows of one transaction are
-- in order.
CREATE FUNCTION new_id() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (
    SELECT
        (
            lpad(to_hex(micros / 1000), 12, '0') || '7' || lpad(to_hex(micros % 1000 * 4096 / 1000), 3, '0')
            || substr(replace(gen_random_uuid()::text, '-', ''), 17)
        )::uuid
    FROM (SELECT (extract(EPOCH FROM clock_timestamp()) * 1000000)::bigint AS micros) AS now
);

-- Who changed what. No foreign key: an entry outlives its actor and its target.
CREATE TABLE audit_log (
    id       uuid PRIMARY KEY,
    actor_id uuid, -- null: a process of Beacon
    at       timestamptz NOT NULL DEFAULT now(),
    key      text, -- the public prefix
    action   text NOT NULL,
    target   text NOT NULL,
    details  json NOT NULL -- no secrets, and nothing that the deletion of a user has to delete
);

CREATE INDEX audit_log_of_actor ON audit_log (actor_id, id) WHERE actor_id IS NOT NULL;
CREATE INDEX audit_log_of_action ON audit_log (action, id);
CREATE INDEX audit_log_of_target ON audit_log (target, id);

CREATE FUNCTION refuse_change() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END
$$;

CREATE TRIGGER audit_log_append_only
BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
FOR EACH STATEMENT
EXECUTE FUNCTION refuse_change();

-- Every configuration that applied; the newest one applies. `json` keeps the order of keys: that of the tiers matters.
CREATE TABLE config_revisions (
    revision   integer PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    actor_id   uuid, -- null: a process of Beacon
    key        text, -- the public prefix
    comment    text NOT NULL,
    document   json NOT NULL -- no secrets
);

CREATE TRIGGER config_revisions_append_only
BEFORE UPDATE OR DELETE OR TRUNCATE ON config_revisions
FOR EACH STATEMENT
EXECUTE FUNCTION refuse_change();

-- Wakes all processes when the transaction commits.
CREATE FUNCTION notify_config() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_notify('config', NEW.revision::text);
    RETURN NULL;
END
$$;

CREATE TRIGGER config_revisions_added
AFTER INSERT ON config_revisions
FOR EACH ROW
EXECUTE FUNCTION notify_config();

-- The endpoints of a user that receive an event of one of the user's jobs. url: the job's own, for its own webhook.
-- They are locked: who disables one waits for the commit, and ends the deliveries of the event.
CREATE FUNCTION webhook_targets(owner uuid, event text, webhook json) RETURNS TABLE (endpoint_id uuid, url text)
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT e.id, CASE WHEN e.url IS NULL THEN webhook ->> 'url' END
    FROM webhook_endpoints e
    WHERE
        e.user_id = owner AND e.disabled_at IS NULL
        AND CASE
            WHEN e.url IS NULL THEN coalesce((webhook -> 'events')::jsonb ? event, false)
            ELSE event = ANY (e.events)
        END
    FOR SHARE OF e;
END;

-- Every transaction that ends a job adds the deliveries of that event, whichever statement ends it. The notification
-- wakes the relay when the transaction commits.
CREATE FUNCTION add_job_deliveries() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.user_id = NEW.user_id) THEN
        RETURN NULL; -- cheaper than an INSERT of nothing
    END IF;
    INSERT INTO webhook_deliveries (id, endpoint_id, job_id, due_at, type, url, data)
    SELECT
        new_id(), t.endpoint_id, NEW.id, now(), 'job.' || NEW.state, t.url,
        json_build_object('kind', NEW.kind, 'name', NEW.name, 'status', NEW.state)
    FROM webhook_targets(NEW.user_id, 'job.' || NEW.state, NEW.webhook) t;
    IF FOUND THEN
        NOTIFY webhooks;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER jobs_ended
AFTER UPDATE ON jobs
FOR EACH ROW
WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL)
EXECUTE FUNCTION add_job_deliveries();

CREATE FUNCTION add_execution_deliveries() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO webhook_deliveries (id, endpoint_id, job_id, due_at, type, url, data)
    SELECT
        new_id(), t.endpoint_id, NEW.job_id, now(), 'execution.failed', t.url,
        json_build_object(
            'stage', NEW.stage, 'ordinal', NEW.ordinal, 'attempt', NEW.attempt, 'item', NEW.item,
            'model', NEW.model, 'region', NEW.region, 'code', NEW.failure ->> 'code',
            'retryable', NEW.failure -> 'retryable'
        )
    FROM jobs j
    CROSS JOIN LATERAL webhook_targets(j.user_id, 'execution.failed', j.webhook) t
    WHERE j.id = NEW.job_id;
    IF FOUND THEN
        NOTIFY webhooks;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER executions_failed_first
AFTER INSERT ON executions
FOR EACH ROW
WHEN (NEW.state = 'failed')
EXECUTE FUNCTION add_execution_deliveries();

CREATE TRIGGER executions_failed_again
AFTER UPDATE ON executions
FOR EACH ROW
WHEN (NEW.state = 'failed' AND (OLD.state <> 'failed' OR OLD.attempt <> NEW.attempt))
EXECUTE FUNCTION add_execution_deliveries();

-- Deletes what is left of a user without jobs. The row, the ledger and the sums of usage stay, without name, notes,
-- keys and tags; files are removed with their bytes, as those that have expired.
CREATE FUNCTION erase_user(target uuid) RETURNS void
LANGUAGE sql VOLATILE
AS $$
    DELETE FROM api_keys WHERE user_id = target;
    DELETE FROM limit_waits WHERE user_id = target;
    DELETE FROM operations WHERE user_id = target;
    DELETE FROM webhook_endpoints WHERE user_id = target;
    UPDATE files SET expires_at = now() WHERE user_id = target;
    UPDATE credit_ledger SET note = '', job_id = NULL WHERE user_id = target;
    UPDATE usage_records SET key_id = NULL, tags = '{}' WHERE user_id = target;
    WITH used AS (
        DELETE FROM usage_hourly WHERE user_id = target RETURNING *
    )
    INSERT INTO usage_hourly (
        hour, user_id, key_id, queued_s, load_s, run_s, tokens_in, tokens_out, output_bytes, runs, failed, model, region,
        tags
    )
    SELECT
        hour, user_id, NULL, sum(queued_s), sum(load_s), sum(run_s), sum(tokens_in), sum(tokens_out),
        sum(output_bytes), sum(runs), sum(failed), model, region, '{}'
    FROM used
    GROUP BY hour, user_id, model, region;
$$;

-- Deletes jobs that have ended, with all that belongs to them; returns how many. Every deletion of jobs uses it.
CREATE FUNCTION delete_jobs(chosen uuid[]) RETURNS bigint
LANGUAGE sql VOLATILE
AS $$
    WITH ended AS (
        SELECT j.id, j.user_id, j.labels, j.created_at, waited_for_limit(j) AS never_admitted
        FROM jobs j
        WHERE
            j.id = ANY (chosen) AND j.finished_at IS NOT NULL
            AND NOT EXISTS (SELECT FROM router_cancels c WHERE c.job_id = j.id) -- something of it may still run
        ORDER BY j.id
        FOR UPDATE
    ), without_executions AS (
        DELETE FROM executions e USING ended x WHERE e.job_id = x.id
    ), without_attempts AS (
        DELETE FROM attempts a USING ended x WHERE a.job_id = x.id
    ), without_events AS (
        DELETE FROM job_events v USING ended x WHERE v.job_id = x.id
    ), without_dead_letters AS (
        DELETE FROM dead_letters d USING ended x WHERE d.job_id = x.id
    ), without_deliveries AS (
        DELETE FROM webhook_deliveries d USING ended x WHERE d.job_id = x.id
    ), without_starts AS (
        DELETE FROM scheduled_starts t USING ended x WHERE t.job_id = x.id
    ), still_counted AS (
        INSERT INTO limit_waits AS w (user_id, job_id, admitted_at, deleted)
        SELECT x.user_id, x.id, x.created_at, true
        FROM ended x
        WHERE x.created_at > now() - interval '1 hour' AND NOT x.never_admitted
        ON CONFLICT (user_id, job_id) DO UPDATE
        SET deleted = true, admitted_at = coalesce(w.admitted_at, EXCLUDED.admitted_at)
    ), without_labels AS (
        DELETE FROM job_labels l
        USING (
            SELECT x.user_id, x.id, k.label FROM ended x CROSS JOIN LATERAL label_keys(x.labels) AS k (label)
        ) AS o
        WHERE l.user_id = o.user_id AND l.label = o.label AND l.job_id = o.id
    ), deleted AS (
        DELETE FROM jobs j USING ended x WHERE j.id = x.id RETURNING j.id
    )
    SELECT count(*) FROM deleted
$$;
