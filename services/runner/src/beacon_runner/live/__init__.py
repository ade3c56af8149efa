"""Live events: Redis wakes those who watch, Postgres is what they read."""

from beacon_runner.live.tickets import Ticket, Tickets
from beacon_runner.live.watchers import Watchers
from beacon_runner.live.wire import HttpLine, Line, SocketLine, line_of

__all__ = ["HttpLine", "Line", "SocketLine", "Ticket", "Tickets", "Watchers", "line_of"]
