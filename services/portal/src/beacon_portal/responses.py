"""Responses for files: compressed if the browser accepts it, with security and cache headers."""

from starlette.requests import Request
from starlette.responses import Response

from beacon_portal.site import Asset

# No inline script, style or event handler, nothing from other origins, no framing: the pages show text that
# users and models wrote.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; media-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_REVALIDATE = "no-cache"
_CACHE_FOREVER = "public, max-age=31536000, immutable"


def file_response(request: Request, asset: Asset, *, immutable: bool) -> Response:
    compressed = "gzip" in _accepted_codings(request)
    body = asset.compressed if compressed else asset.body
    tag = f'"{asset.digest}{"-gz" if compressed else ""}"'
    headers = {
        **_SECURITY_HEADERS,
        "ETag": tag,
        "Cache-Control": _CACHE_FOREVER if immutable else _REVALIDATE,
    }
    if _is_current(request, tag):
        return Response(status_code=304, headers=headers)
    if compressed:
        headers["Content-Encoding"] = "gzip"
    headers |= {"Content-Type": asset.media_type, "Content-Length": str(len(body))}
    return Response(b"" if request.method == "HEAD" else body, headers=headers)


def _accepted_codings(request: Request) -> set[str]:
    accepted = set()
    for part in request.headers.get("accept-encoding", "").split(","):
        coding, _, weight = part.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            accepted.add(coding.strip().lower())
    return accepted


def _is_current(request: Request, tag: str) -> bool:
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    return tag in known or "*" in known
