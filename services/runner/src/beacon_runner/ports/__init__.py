"""What the runner needs from the outside, as small protocols; adapters implement them.

In Postgres (`postgres/`):

- jobs: `submissions`, `claims` (of workers), `jobs` (reads and commands), `operations` (on many jobs),
  `schedule`, `cancels`, `dead_letters`, `retention`, `demand`
- from Postgres to Redis: `outbox`, `promotions`, `reconcile`, `pauses`
- accounts: `users`, `usage`, `audit`
- others: `configuration`, `files`, `webhooks`

In Redis (`redis_queue/`): `queue` (workers and loops), `leases` (heartbeats), `queue_admin` (API and
operators), `request_limits`, `events` (streams of a job's events).

Over HTTP: `router` (workers and API) and `interactive` in `router_client/`, `priorities` in
`priority_client.py`, the sender of `webhooks` in `webhook_client.py`.
"""
