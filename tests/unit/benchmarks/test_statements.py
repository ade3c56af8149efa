"""Round trips and transactions are counted from Postgres's log of statements."""

from benchmarks.code_metrics.statements import round_trips

LOG = """
2026-11-18 15:08:36 UTC [37] LOG:  duration: 0.040 ms  bind __asyncpg_stmt_1c__: -- submit.submit
2026-11-18 15:08:36 UTC [37] LOG:  duration: 0.328 ms  execute __asyncpg_stmt_1c__: -- submit.submit
	INSERT INTO jobs
2026-11-18 15:08:36 UTC [37] DETAIL:  Parameters: $1 = '1'
2026-11-18 15:08:36 UTC [7] LOG:  duration: 0.027 ms  statement: BEGIN;
2026-11-18 15:08:36 UTC [9] LOG:  duration: 0.202 ms  execute __asyncpg_stmt_15__: -- claim.claim
2026-11-18 15:08:36 UTC [7] LOG:  duration: 0.172 ms  execute __asyncpg_stmt_14__: -- outbox.take
2026-11-18 15:08:36 UTC [7] LOG:  duration: 0.047 ms  statement: COMMIT;
2026-11-18 15:08:36 UTC [7] LOG:  duration: 0.172 ms  execute __asyncpg_stmt_14__: -- outbox.lag
"""


def test_begin_and_commit_are_round_trips_of_one_transaction() -> None:
    assert round_trips(LOG) == (6, 4)


def test_preparing_and_binding_are_not_counted() -> None:
    assert round_trips(LOG.splitlines()[1]) == (0, 0)
