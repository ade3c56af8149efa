"""The command line as a whole."""

import typer

from beacon_client.cli import stack_commands
from beacon_client.cli.config_commands import config
from beacon_client.cli.exits import HELP
from beacon_client.cli.guard import GuardedGroup

app = typer.Typer(
    name="beacon",
    cls=GuardedGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A durable, fair job queue for slow and scarce GPUs.",
    epilog=HELP,
    pretty_exceptions_enable=False,
)

app.command("up", rich_help_panel="Run it")(stack_commands.up)
app.command("demo", rich_help_panel="Run it")(stack_commands.demo)
app.add_typer(config, name="config", rich_help_panel="Run it")
