"""How a file is answered: packed if the browser can unpack it, with the rules that the page lives by."""

from starlette.requests import Request
from starlette.responses import Response

from beacon_portal.site import Asset

# No inline script, style or event handler, nothing from elsewhere, no framing: text that users and models
# wrote is shown on these pages.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_RULES = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_ASK_AGAIN = "no-cache"
_KEEP = "public, max-age=31536000, immutable"


def answer(request: Request, asset: Asset, *, keep: bool) -> Response:
    packed = "gzip" in _accepted_codings(request)
    body = asset.packed if packed else asset.body
    tag = f'"{asset.digest}{"-gz" if packed else ""}"'
    headers = {**_RULES, "ETag": tag, "Cache-Control": _KEEP if keep else _ASK_AGAIN}
    if _has_it(request, tag):
        return Response(status_code=304, headers=headers)
    if packed:
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


def _has_it(request: Request, tag: str) -> bool:
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    return tag in known or "*" in known
