-- name: charge
-- Take a price from a user's credit, with an entry in the ledger; nothing when there is not enough.
WITH paid AS (
    UPDATE users
    SET credit = credit - $2::integer
    WHERE id = $1 AND credit >= $2
    RETURNING id, credit
)
INSERT INTO credit_ledger (user_id, job_id, amount, balance, entry, ran_before)
SELECT id, $3, -$2, credit, 'skip', runs_of($3)
FROM paid
RETURNING balance;

-- name: credit_of
-- A user's credit.
SELECT credit FROM users WHERE id = $1;

-- name: skip
-- Move the job to the front of the given class; the outbox row moves its message in Redis. With $4 it waits at a router:
-- it gets a new message, and what its worker still reports is refused because no worker holds the job.
WITH skipped AS (
    UPDATE jobs
    SET
        front = true,
        price_paid = $2,
        class = $3,
        event_seq = event_seq + 1,
        generation = generation + CASE WHEN $4 THEN 1 ELSE 0 END,
        worker = CASE WHEN $4 THEN NULL ELSE worker END
    WHERE id = $1
    RETURNING id, user_id, generation, stage, attempt, class, lane, batch, event_seq
), moved AS (
    INSERT INTO outbox (job_id, user_id, generation, stage, attempt, class, lane, front, batch)
    SELECT id, user_id, generation, stage, attempt, class, lane, true, batch
    FROM skipped
)
INSERT INTO job_events (job_id, seq, events)
SELECT
    id, event_seq,
    json_build_array(json_build_object('type', 'JOB_SKIPPED', 'data', json_build_object('price', $2::integer)))
FROM skipped;

-- name: refund
-- Refund the payments of jobs that have ended without any run since the payment. An entry of the ledger is
-- refunded at most once.
WITH due AS (
    SELECT l.id, l.user_id, l.job_id, -l.amount AS amount
    FROM unnest($1::uuid[]) AS ended (id)
    JOIN jobs j ON j.id = ended.id AND j.price_paid > 0 AND j.finished_at IS NOT NULL
    JOIN credit_ledger l ON l.job_id = j.id AND l.entry = 'skip'
    WHERE
        NOT EXISTS (SELECT FROM credit_ledger r WHERE r.refunds = l.id)
        AND runs_of(j.id) <= l.ran_before
), owed AS (
    SELECT user_id, sum(amount)::integer AS amount FROM due GROUP BY user_id
), paid AS (
    UPDATE users u
    SET credit = u.credit + o.amount
    FROM owed o
    WHERE u.id = o.user_id
    RETURNING u.id, u.credit, o.amount
), undone AS (
    UPDATE jobs j
    SET
        front = false,
        price_paid = 0,
        class = CASE WHEN j.promoted_at IS NULL THEN j.original_class ELSE j.class END
    FROM due d
    WHERE j.id = d.job_id
)
INSERT INTO credit_ledger (user_id, job_id, refunds, amount, balance, entry)
SELECT
    d.user_id, d.job_id, d.id, d.amount,
    p.credit - p.amount + sum(d.amount) OVER (PARTITION BY d.user_id ORDER BY d.id), 'refund'
FROM due d
JOIN paid p ON p.id = d.user_id
ORDER BY d.id;

-- name: ledger_page
-- A user's entries, newest first, before a given one.
SELECT id, created_at, entry, amount, balance, job_id, refunds, note
FROM credit_ledger
WHERE user_id = $1 AND ($2::bigint IS NULL OR id < $2)
ORDER BY id DESC
LIMIT $3;

-- name: change_credit
-- Add to or subtract from a user's credit, with an entry in the ledger; no row when it would leave its bounds.
WITH changed AS (
    UPDATE users
    SET credit = credit + $2::integer
    WHERE id = $1 AND credit::bigint + $2 BETWEEN 0 AND 2147483647
    RETURNING id, credit
)
INSERT INTO credit_ledger (user_id, amount, balance, entry, note)
SELECT id, $2, credit, 'grant', $3
FROM changed
RETURNING balance;
