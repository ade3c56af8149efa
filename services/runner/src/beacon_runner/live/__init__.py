"""Live events: Redis wakes those who watch, Postgres is what they read."""

from beacon_runner.live.tickets import Ticket, Tickets
from beacon_runner.live.watchers import Watchers

__all__ = ["Ticket", "Tickets", "Watchers"]
