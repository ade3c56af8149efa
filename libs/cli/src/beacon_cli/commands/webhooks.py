"""`beacon webhooks`: endpoints that receive the events of jobs, and their deliveries."""

from typing import Annotated

import typer

from beacon_cli.connect import call_runner
from beacon_cli.output.formatting import ago
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_client.runner import RunnerClient
from beacon_contracts.webhooks import DeliveryView, WebhookCreated, WebhookEvent, WebhookView

webhooks = typer.Typer(help="Endpoints that receive the events of your jobs.", no_args_is_help=True)

Webhook = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The id of a webhook (webhook_…).")]
Events = Annotated[
    list[WebhookEvent] | None, typer.Option("--event", help="Repeatable [default: all job.* events].")
]
Description = Annotated[str | None, typer.Option("--description", help="A note for yourself.")]


@webhooks.command("list")
def show_all(
    user: Annotated[
        str | None, typer.Option(help="Those of this user (user_…); needs an administrator's key.")
    ] = None,
    _json: AsJson = False,
) -> None:
    """List your webhooks. The one without a URL is for the webhook_url of jobs."""
    found = call_runner(lambda client: client.webhooks.list(user=user), admin=user is not None)
    rows = [
        (one.id, one.url or "(webhook_url of jobs)", ", ".join(one.events), ago(one.created_at), _state(one))
        for one in found
    ]
    print_result(found, table(("webhook", "url", "events", "created", ""), rows))


@webhooks.command("add")
def add(url: str, event: Events = None, description: Description = None, _json: AsJson = False) -> None:
    """Add an endpoint. Its secret is shown only now."""
    _print_secret(
        call_runner(lambda client: client.webhooks.create(url, events=event, description=description or ""))
    )


@webhooks.command("change")
def change(
    webhook: Webhook,
    url: Annotated[str | None, typer.Option(help="The new URL.")] = None,
    event: Events = None,
    description: Description = None,
    _json: AsJson = False,
) -> None:
    """Change the URL, the events or the description."""
    _print(
        call_runner(
            lambda client: client.webhooks.change(webhook, url=url, events=event, description=description)
        )
    )


@webhooks.command("disable")
def disable(webhook: Webhook, _json: AsJson = False) -> None:
    """Send nothing more; pending deliveries end as failed."""
    _print(call_runner(lambda client: client.webhooks.change(webhook, disabled=True)))


@webhooks.command("enable")
def enable(webhook: Webhook, _json: AsJson = False) -> None:
    """Send events again that happen from now on."""
    _print(call_runner(lambda client: client.webhooks.change(webhook, disabled=False)))


@webhooks.command("rotate")
def rotate(webhook: Webhook, _json: AsJson = False) -> None:
    """Make a new secret, shown only now. For a day the old one signs too."""
    _print_secret(call_runner(lambda client: client.webhooks.rotate(webhook)))


@webhooks.command("delete")
def delete(webhook: Webhook, _json: AsJson = False) -> None:
    """Delete a webhook with its deliveries."""
    call_runner(lambda client: client.webhooks.delete(webhook))
    print_result({"deleted": webhook}, f"deleted {webhook}")


@webhooks.command("test")
def send_test(webhook: Webhook, _json: AsJson = False) -> None:
    """Send an event of type webhook.test."""
    _print_deliveries([call_runner(lambda client: client.webhooks.test(webhook))])


@webhooks.command("deliveries")
def deliveries(
    webhook: Webhook,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 20,
    _json: AsJson = False,
) -> None:
    """List what was sent and what will be, newest first."""

    async def work(client: RunnerClient) -> list[DeliveryView]:
        found: list[DeliveryView] = []
        async for delivery in client.webhooks.deliveries(webhook):
            found.append(delivery)
            if len(found) == limit:
                break
        return found

    _print_deliveries(call_runner(work))


@webhooks.command("replay")
def replay(
    webhook: Webhook,
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="The id of a delivery (msg_…).")],
    _json: AsJson = False,
) -> None:
    """Send a delivery again, with the same webhook-id."""
    _print_deliveries([call_runner(lambda client: client.webhooks.replay(webhook, delivery))])


def _print_secret(made: WebhookCreated) -> None:
    shown = [("webhook", made.id), ("url", made.url or "(webhook_url of jobs)"), ("secret", made.secret)]
    print_result(made, facts(shown))


def _print(webhook: WebhookView) -> None:
    print_result(
        webhook,
        facts(
            [
                ("webhook", webhook.id),
                ("url", webhook.url or "(webhook_url of jobs)"),
                ("events", ", ".join(webhook.events)),
                ("description", webhook.description),
                ("state", _state(webhook) or "enabled"),
            ]
        ),
    )


def _print_deliveries(found: list[DeliveryView]) -> None:
    rows = [
        (one.id, one.type, ago(one.created_at), one.state, len(one.attempts), _last(one)) for one in found
    ]
    print_result(found, table(("delivery", "event", "created", "state", "attempts", "last"), rows))


def _last(delivery: DeliveryView) -> str:
    if not delivery.attempts:
        return ""
    attempt = delivery.attempts[-1]
    return f"{attempt.status or attempt.error} ({attempt.duration_s:.1f} s)"


def _state(webhook: WebhookView) -> str:
    return f"disabled: {webhook.disabled_reason}" if webhook.disabled_at else ""
