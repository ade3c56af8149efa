"""The command line as a whole."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from beacon_client.cli import catalogue_commands, job_commands, stack_commands
from beacon_client.cli.config_commands import config
from beacon_client.cli.connect import choose_admin
from beacon_client.cli.dead_commands import dead
from beacon_client.cli.doctor_command import doctor
from beacon_client.cli.exits import HELP
from beacon_client.cli.guard import GuardedGroup
from beacon_client.cli.queue_commands import queues
from beacon_client.cli.submit_command import submit
from beacon_client.cli.user_commands import keys, users
from beacon_client.cli.watch_command import watch

app = typer.Typer(
    name="beacon",
    cls=GuardedGroup,
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

    Address and keys come from BEACON_RUNNER_URL and BEACON_API_KEY, or from what `beacon up` wrote into
    BEACON_HOME (default .beacon). Every command prints JSON with --json.
    """


def _add(panel: str, commands: Mapping[str, Callable[..., None]]) -> None:
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)


_add("Run it", {"up": stack_commands.up, "demo": stack_commands.demo, "doctor": doctor})
app.add_typer(config, name="config", rich_help_panel="Run it")
_add(
    "Jobs",
    {
        "submit": submit,
        "jobs": job_commands.jobs,
        "job": job_commands.job,
        "watch": watch,
        "why": job_commands.why,
        "cancel": job_commands.cancel,
        "resume": job_commands.resume,
        "skip": job_commands.skip,
        "retry": job_commands.retry,
        "execution": job_commands.execution,
    },
)
_add(
    "Look around",
    {
        "me": job_commands.me,
        "models": catalogue_commands.models,
        "features": catalogue_commands.features,
        "regions": catalogue_commands.regions,
        "prices": catalogue_commands.prices,
    },
)
for group_name, group in {"queues": queues, "dead": dead, "users": users, "keys": keys}.items():
    app.add_typer(group, name=group_name, rich_help_panel="Administrate")
