"""The answer of a completed call, sent as it is or as its fault requires."""

from dataclasses import dataclass

from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.http.broken_connections import close_connection
from beacon_gpusim.http.exchange import HttpExchange

_HTML = "text/html; charset=utf-8"
_HTML_ERROR_PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
_ENDLESS_PART = b" " * 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    content_type: str
    parts: list[bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


async def send_answer(exchange: HttpExchange, answer: Answer, fault: Fault | None) -> None:
    match None if fault is None else fault.kind:
        case FaultKind.NO_BODY:
            await exchange.respond(200, b"")
        case FaultKind.BAD_JSON:
            body = b"".join(answer.parts)
            await exchange.respond(200, body[: len(body) // 2])
        case FaultKind.WRONG_CONTENT_TYPE:
            await exchange.respond(200, _HTML_ERROR_PAGE, media_type=_HTML)
        case FaultKind.MISLABELLED:
            await exchange.respond(200, _HTML_ERROR_PAGE, media_type=answer.content_type)
        case FaultKind.TRUNCATED:
            await _send_half(exchange, answer)
        case FaultKind.ENDLESS:
            await _send_endless(exchange, answer)
        case _:
            await send_parts(exchange, answer)


async def send_parts(exchange: HttpExchange, answer: Answer) -> None:
    await exchange.start(answer.content_type, answer.size)
    for part in answer.parts:
        await exchange.send_part(part)
    await exchange.end()


async def _send_half(exchange: HttpExchange, answer: Answer) -> None:
    left = answer.size // 2
    await exchange.start(answer.content_type, answer.size)
    for part in answer.parts:
        await exchange.send_part(part[:left])
        left -= len(part)
        if left <= 0:
            break
    await close_connection(exchange)


async def _send_endless(exchange: HttpExchange, answer: Answer) -> None:
    """The answer, then spaces until the client disconnects."""
    await exchange.start(answer.content_type, None)
    for part in answer.parts:
        await exchange.send_part(part)
    while not await exchange.request.is_disconnected():
        await exchange.send_part(_ENDLESS_PART)
    await exchange.end()
