"""Direct checks of Postgres and Redis, where their addresses are set."""

import asyncio

import asyncpg
import redis.asyncio as redis
from redis.exceptions import RedisError

from beacon_cli.checks.clock_skew import is_skewed, skew_of
from beacon_cli.checks.findings import Finding, Verdict, failed
from beacon_lifecycle.clock import Clock

TIMEOUT_S = 5.0
MIN_POSTGRES = 17  # transaction_timeout


async def check_postgres(url: str) -> list[Finding]:
    if not url:
        detail = "DATABASE_URL is not set here; the runner's readiness covers it"
        return [Finding("postgres", Verdict.SKIPPED, detail)]
    try:
        connection = await asyncpg.connect(url, timeout=TIMEOUT_S)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        return [
            failed("postgres", reason, "Is it running? Check host, port, user and password in DATABASE_URL.")
        ]
    version = connection.get_server_version()
    await connection.close(timeout=TIMEOUT_S)
    if version.major < MIN_POSTGRES:
        return [failed("postgres", f"version {version.major}", f"Beacon needs {MIN_POSTGRES} or later.")]
    return [Finding("postgres", Verdict.OK, f"version {version.major}.{version.minor} responds")]


async def check_redis(url: str, clock: Clock) -> list[Finding]:
    if not url:
        detail = "REDIS_URL is not set here; the runner's readiness covers it"
        return [Finding("redis", Verdict.SKIPPED, detail)]
    try:
        async with asyncio.timeout(TIMEOUT_S), redis.Redis.from_url(url) as client:
            information = await client.info("server")
            sent_at = clock.wall().timestamp()
            seconds, micros = await client.time()
            received_at = clock.wall().timestamp()
            memory = await client.config_get("maxmemory-policy")
    except (RedisError, OSError, ValueError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        return [failed("redis", reason, "Is it running? Check host, port and password in REDIS_URL.")]
    # Valkey's redis_version is that of the Redis with which it is compatible.
    valkey = information.get("valkey_version")
    server = f"Valkey {valkey}" if valkey else f"Redis {information['redis_version']}"
    found = [Finding("redis", Verdict.OK, f"{server} responds")]
    skew_s = skew_of(seconds + micros / 1e6, sent_at=sent_at, received_at=received_at)
    if is_skewed(skew_s):
        advice = "Synchronise the clocks (NTP). Leases use the server's clock and are not affected."
        found.append(Finding("redis clock", Verdict.WARNING, f"{skew_s:+.0f} s from this machine's", advice))
    policy = memory.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        advice = "Set it to noeviction: evicted entries have to be restored by the reconciler."
        found.append(Finding("redis memory", Verdict.WARNING, f"maxmemory-policy is {policy}", advice))
    return found
