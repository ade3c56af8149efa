"""The `beacon` command: its options and the list of its commands."""

from typing import Annotated

import typer

from beacon_cli.error_handler import ErrorHandlingGroup
from beacon_cli.exit_codes import HELP
from beacon_cli.global_options import choose_admin
from beacon_cli.lazy_group import LazyCommand

_RUN, _JOBS, _INFORMATION, _ADMIN = "Run", "Jobs", "Information", "Administration"
_JOB, _CATALOGUE = "beacon_cli.commands.job", "beacon_cli.commands.catalogue"

COMMANDS = {
    "up": LazyCommand("beacon_cli.commands.stack:up", _RUN, "Start the whole system in this terminal."),
    "demo": LazyCommand("beacon_cli.commands.stack:demo", _RUN, "Start everything, run a demo job, stop."),
    "doctor": LazyCommand("beacon_cli.commands.doctor:doctor", _RUN, "Check every part of a running system."),
    "config": LazyCommand(
        "beacon_cli.commands.config:config", _RUN, "Check, compare and apply the configuration."
    ),
    "simulate": LazyCommand(
        "beacon_cli.commands.simulate:simulate", _RUN, "Simulate a load on a configuration file."
    ),
    "submit": LazyCommand("beacon_cli.commands.submit:submit", _JOBS, "Submit a job."),
    "jobs": LazyCommand(f"{_JOB}:jobs", _JOBS, "List your jobs, newest first."),
    "job": LazyCommand(f"{_JOB}:job", _JOBS, "Show one job: state, progress, executions, failures."),
    "watch": LazyCommand("beacon_cli.commands.watch:watch", _JOBS, "Follow a job to its end."),
    "why": LazyCommand(f"{_JOB}:why", _JOBS, "Show what a job waits for."),
    "cancel": LazyCommand(f"{_JOB}:cancel", _JOBS, "Cancel a queued or running job."),
    "resume": LazyCommand(f"{_JOB}:resume", _JOBS, "Continue a failed or partial job."),
    "bulk": LazyCommand("beacon_cli.commands.bulk:bulk", _JOBS, "Cancel, resume, retry or delete many jobs."),
    "delete": LazyCommand("beacon_cli.commands.bulk:delete", _JOBS, "Delete jobs that have ended."),
    "export": LazyCommand("beacon_cli.commands.export:export", _JOBS, "Write all results of a job."),
    "skip": LazyCommand(f"{_JOB}:skip", _JOBS, "Pay for priority."),
    "retry": LazyCommand(f"{_JOB}:retry", _JOBS, "Run one failed execution again."),
    "execution": LazyCommand(f"{_JOB}:execution", _JOBS, "Show one execution with all its attempts."),
    "files": LazyCommand(
        "beacon_cli.commands.files:files", _JOBS, "Upload, list, download and delete files."
    ),
    "webhooks": LazyCommand(
        "beacon_cli.commands.webhooks:webhooks", _JOBS, "Receive the events of your jobs over HTTP."
    ),
    "me": LazyCommand(f"{_JOB}:me", _INFORMATION, "Show your key's user: tier, limits, credit."),
    "usage": LazyCommand("beacon_cli.commands.usage:usage", _INFORMATION, "Show GPU seconds and tokens."),
    "models": LazyCommand(f"{_CATALOGUE}:models", _INFORMATION, "List the models; pause and resume one."),
    "features": LazyCommand(f"{_CATALOGUE}:features", _INFORMATION, "List the pipelines and their steps."),
    "regions": LazyCommand(f"{_CATALOGUE}:regions", _INFORMATION, "Show regions, queues and backends."),
    "prices": LazyCommand(f"{_CATALOGUE}:prices", _INFORMATION, "Show the prices of a skip."),
    "queues": LazyCommand("beacon_cli.commands.queue:queues", _ADMIN, "Show, pause and resume the queues."),
    "backends": LazyCommand(
        "beacon_cli.commands.backends:backends", _ADMIN, "Add, change, drain and remove backends."
    ),
    "demand": LazyCommand("beacon_cli.commands.demand:demand", _ADMIN, "Show the work for GPUs."),
    "dead": LazyCommand("beacon_cli.commands.dead:dead", _ADMIN, "List, requeue and purge dead letters."),
    "users": LazyCommand("beacon_cli.commands.user:users", _ADMIN, "Manage users, tiers and credit."),
    "keys": LazyCommand("beacon_cli.commands.user:keys", _ADMIN, "Manage the keys of users."),
    "audit": LazyCommand("beacon_cli.commands.audit:audit", _ADMIN, "Show who changed what."),
}


class BeaconGroup(ErrorHandlingGroup):
    """The commands of `beacon`."""

    lazy_commands = COMMANDS


app = typer.Typer(
    name="beacon",
    cls=BeaconGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback(epilog=HELP)
def _root(
    _admin: Annotated[
        bool, typer.Option("--admin", help="Use the administrator's key.", callback=choose_admin)
    ] = False,
) -> None:
    """A durable, fair job queue for slow and scarce GPUs.

    Address and keys are read from BEACON_RUNNER_URL and BEACON_API_KEY, or from the credentials file that
    `beacon up` writes into BEACON_HOME (default .beacon). Every command prints JSON with --json.
    """
