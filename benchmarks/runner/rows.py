"""The rows of the table."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.harness.statistics import Spread, ratio, values_of
from benchmarks.harness.table import DASH, TIMES, number, spread
from benchmarks.runner.entries import ALL, APART, BEACON, FROM_OUTBOX, MANY_LANES
from benchmarks.runner.findings import Findings
from benchmarks.runner.goals import Goal, at_least, at_most
from benchmarks.runner.plan import Rounds
from benchmarks.runner.sections import drain, growth, limits, pickup, recovery, submit

PEER_GOALS = {"pgqueuer": at_least(1), "chancy": None}
HEADER = ("what", "Beacon", "against", "its figure", "ratio, median (quartiles)", "goal", "")


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    ours: str
    against: str = DASH
    theirs: str = DASH
    measured: Spread | None = None
    goal: Goal | None = None
    unit: str = TIMES

    def cells(self) -> tuple[str, ...]:
        shown = DASH if self.measured is None else spread(self.measured) + self.unit
        judged = self.measured is not None and self.goal is not None
        verdict = self.goal.verdict(self.measured) if judged and self.goal and self.measured else ""
        return (self.what, self.ours, self.against, self.theirs, shown, str(self.goal or DASH), verdict)


def rows(findings: Findings) -> list[Row]:
    return [
        *_drain_rows(findings),
        *_submit_rows(findings),
        *_pickup_rows(findings),
        *_growth_rows(findings),
        *_recovery_rows(findings),
    ]


def _drain_rows(findings: Findings) -> Iterator[Row]:
    rounds = findings.rounds(drain.NAME)
    what = "drain a filled queue, result recorded, jobs/s"
    settings, peers = findings.said(drain.NAME, "settings"), findings.said(drain.NAME, "peers")
    for name in peers:
        if values_of(rounds, name):
            against = f"{name} {peers[name]} ({settings.get(name, '')})"
            yield _paired(what, rounds, BEACON, name, PEER_GOALS.get(name, at_least(10)), against=against)
    for ours, label in (
        (MANY_LANES, "the same, 20 users round-robin"),
        (FROM_OUTBOX, "the same, publishing included"),
    ):
        if values_of(rounds, ours):
            yield _paired(label, rounds, ours, "pgqueuer", None)
    if values_of(rounds, limits.RESULTS):
        yield _paired(what, rounds, BEACON, limits.RESULTS, None)
    if values_of(rounds, "pgqueuer" + drain.CPU):
        yield _paired(
            "CPU of a drained job, worker and servers, µs",
            rounds,
            BEACON + drain.CPU,
            "pgqueuer" + drain.CPU,
            at_most(1),
            against="pgqueuer",
        )


def _submit_rows(findings: Findings) -> Iterator[Row]:
    rounds = findings.rounds(submit.NAME)
    for what, ours, theirs, goal in (
        (
            "submit over HTTP, one job a request, 64 in flight, jobs/s",
            submit.SUBMIT,
            submit.ECHO,
            at_least(0.7),
        ),
        ("submit over HTTP to result recorded, jobs/s", submit.RECORDED, submit.ECHO, at_least(0.6)),
        ("submit over HTTP in batches of 100, jobs/s", submit.BATCHES, limits.INSERT_MANY, at_least(0.4)),
        ("submit over HTTP, one job a request, 64 in flight, jobs/s", submit.SUBMIT, limits.INSERT_1, None),
        ("submit over HTTP, one job a request, 64 in flight, jobs/s", submit.SUBMIT, limits.INSERT_32, None),
    ):
        if values_of(rounds, ours):
            yield _paired(what, rounds, ours, theirs, goal)
    if values_of(rounds, limits.REDIS):
        figure = number(Spread.of(values_of(rounds, limits.REDIS)).median)
        yield Row("limit, for the scale, messages/s", DASH, limits.REDIS, figure)


def _pickup_rows(findings: Findings) -> Iterator[Row]:
    rounds = findings.rounds(pickup.NAME)
    peers = findings.said(pickup.NAME, "peers")
    goals = {50: at_most(1.2), 99: at_most(1.5)}
    for percent in pickup.PERCENTS:
        what = f"idle: submit over HTTP until the job's body runs, p{percent}, ms"
        for peer in peers:
            if values_of(rounds, pickup.key(peer, percent)):
                goal = goals.get(percent) if peer == "pgqueuer" else None
                ours, theirs = pickup.key(APART, percent), pickup.key(peer, percent)
                yield _paired(what, rounds, ours, theirs, goal, against=peer)
        if values_of(rounds, pickup.key(ALL, percent)):
            ours, theirs = pickup.key(ALL, percent), pickup.key("pgqueuer", percent)
            yield _paired(
                f"the same, all in one process, p{percent}, ms",
                rounds,
                ours,
                theirs,
                None,
                against="pgqueuer",
            )


def _growth_rows(findings: Findings) -> Iterator[Row]:
    rounds = findings.rounds(growth.NAME)
    if not rounds:
        return
    depths = findings.said(growth.NAME, "settings")
    yield _paired(
        f"a claim of 50 with {depths[growth.MANY]} waiting, ms",
        rounds,
        growth.MANY,
        growth.FEW,
        at_most(1.2),
        against=f"with {depths[growth.FEW]}",
    )
    for part, bound in ((growth.REDIS_BYTES, 512), (growth.POSTGRES_BYTES, 1024)):
        size = Spread.of(values_of(rounds, part)[:1])
        yield Row(
            f"memory of a waiting job, {part} without the input",
            number(size.median),
            measured=size,
            goal=at_most(bound, " bytes"),
            unit=" bytes",
        )


def _recovery_rows(findings: Findings) -> Iterator[Row]:
    rounds = findings.rounds(recovery.NAME)
    depth = findings.said(recovery.NAME, "settings").get(recovery.FLUSHED, "")
    ours = recovery.killed(BEACON)
    for name, what, goal in (
        (recovery.FLUSHED, f"Redis emptied with {depth}: until all are back, s", at_most(10, " s")),
        (ours, "worker killed -9 in the middle of a job: until it runs again, s", at_most(15, " s")),
    ):
        values = values_of(rounds, name)
        if values:
            found = Spread.of(values)
            yield Row(what, number(found.median), measured=found, goal=goal, unit=" s")
    if values_of(rounds, recovery.killed("pgqueuer")):
        theirs = recovery.killed("pgqueuer")
        yield _paired("worker killed -9, s", rounds, ours, theirs, None, against="pgqueuer")


def _paired(
    what: str, rounds: Rounds, ours: str, theirs: str, goal: Goal | None, *, against: str | None = None
) -> Row:
    return Row(
        what,
        _figure(rounds, ours),
        against or theirs,
        _figure(rounds, theirs),
        ratio(rounds, ours, theirs),
        goal,
    )


def _figure(rounds: Rounds, name: str) -> str:
    values = values_of(rounds, name)
    return number(Spread.of(values).median) if values else DASH
