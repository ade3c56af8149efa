"""Submission over HTTP compared with the echo app, and in batches with bare inserts."""

from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.servers import SharedServers
from benchmarks.runner.entries import of_beacon
from benchmarks.runner.plan import Plan, Section
from benchmarks.runner.sections.limits import BARE, INSERT_1, INSERT_32, INSERT_MANY, REDIS, Task, rate

NAME = "submit"
IN_FLIGHT = 64
BATCH = 100
ECHO, SUBMIT = "the app that only validates and echoes", "submit"
RECORDED, BATCHES = "submit to recorded", "submit in batches"

TASKS = {
    ECHO: Task(of_beacon("http", server="echo"), "submit", 8_000, {"in_flight": IN_FLIGHT}),
    SUBMIT: Task(of_beacon("http", server="api"), "submit", 8_000, {"in_flight": IN_FLIGHT}),
    RECORDED: Task(of_beacon("http", server="apart"), "submit_recorded", 8_000, {"in_flight": IN_FLIGHT}),
    BATCHES: Task(of_beacon("http", server="api"), "submit_batches", 40_000, {"in_flight": 8, "size": BATCH}),
    **{name: BARE[name] for name in (INSERT_MANY, INSERT_1, INSERT_32, REDIS)},
}


async def measure(servers: SharedServers, plan: Plan) -> Section:
    section = Section(NAME)
    for order in shuffled_rounds(list(TASKS), plan.rounds, plan.seed):
        values = {name: await rate(servers, plan, TASKS[name]) for name in order}
        section.rounds.append(values)
        print("  " + ", ".join(f"{name} {value:,.0f}" for name, value in values.items()), flush=True)
    return section
