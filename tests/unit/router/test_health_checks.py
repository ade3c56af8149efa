"""How often the backends are looked at."""

import httpx

from beacon_lifecycle import ManualClock
from beacon_router.service.health import HealthChecks, NextLook
from beacon_router.service.timers import Timers


async def test_a_backend_that_stays_down_is_looked_at_once_a_second_whatever_else_fails() -> None:
    clock, looks = ManualClock(), 0

    def look_now() -> None:
        nonlocal looks
        looks += 1

    timers = Timers(clock)
    timers.start()
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(500))) as client:
        checks = HealthChecks(
            {"us": "http://us/healthz"},
            client,
            report=lambda _name, _up: None,
            look_again=NextLook(timers, look_now).plan,
        )
        await checks.run_once()
        for _ in range(10):  # runs elsewhere lose their connections, and each has the backends looked at
            await checks.run_once()

        await clock.advance(1)
        assert looks == 1
        await checks.run_once()
        await clock.advance(1)
        assert looks == 2
    await timers.close()
