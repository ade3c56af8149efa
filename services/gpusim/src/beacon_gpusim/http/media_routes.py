"""Files that JSON answers refer to by URL. They are generated from the parameters in their address."""

from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from beacon_gpusim.core.media import MediaKind, media_of
from beacon_gpusim.core.media.spec import SUFFIXES
from beacon_gpusim.core.outputs import Prompt, quoted
from beacon_gpusim.http.answers import Answer, send_parts
from beacon_gpusim.http.exchange import HttpExchange

_KINDS = {suffix: kind for kind, suffix in SUFFIXES.items()}
_MAX_BYTES = 4_000_000_000
_MAX_DURATION_S = 3_600.0


def media_address(request: Request, kind: MediaKind, prompt: Prompt, min_bytes: int) -> str:
    """The address of a file, at the host that the client has called."""
    given = {"prompt": quoted(prompt.text), "seed": prompt.seed_or_default(), "bytes": min_bytes}
    if prompt.duration_s is not None:
        given["duration"] = prompt.duration_s
    name = f"{quote(prompt.model, safe='')}.{SUFFIXES[kind]}"
    return f"{request.base_url}media/{name}?{urlencode(given)}"


def media_route() -> Route:
    return Route("/media/{name:path}", _MediaEndpoint(), methods=["GET"])


class _MediaEndpoint:
    """An ASGI endpoint, so that a large file is sent in parts."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        model, _, suffix = request.path_params["name"].rpartition(".")
        if suffix not in _KINDS:
            raise HTTPException(404, "there is no such file")
        prompt, min_bytes = _prompt_of(request, model)
        media = media_of(_KINDS[suffix], prompt, min_bytes=min_bytes)
        await send_parts(HttpExchange(request, send), Answer(media.content_type, media.parts))


def _prompt_of(request: Request, model: str) -> tuple[Prompt, int]:
    given = request.query_params
    try:
        duration = min(float(given["duration"]), _MAX_DURATION_S) if "duration" in given else None
        prompt = Prompt(model, "", given.get("prompt", ""), duration, int(given.get("seed", 0)))
        return prompt, max(0, min(int(given.get("bytes", 0)), _MAX_BYTES))
    except ValueError as error:
        raise HTTPException(422, f"invalid query: {error}") from error
