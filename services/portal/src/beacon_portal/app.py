"""Where the portal answers: the page at `/`, its files under `/portal/<build>/`."""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from beacon_portal.answers import answer
from beacon_portal.site import Site, load_site

Endpoint = Callable[[Request], Awaitable[Response]]


def portal_routes() -> list[BaseRoute]:
    """To be added after an application's own routes, which keep their own 404 and 405."""
    site = load_site()
    return [
        Route("/", _page(site), name="portal", include_in_schema=False),
        Route("/portal/{path:path}", _file(site), name="portal_file", include_in_schema=False),
    ]


def portal_app() -> ASGIApp:
    """The portal alone."""
    return Starlette(routes=portal_routes())


def _page(site: Site) -> Endpoint:
    async def page(request: Request) -> Response:
        return answer(request, site.index, keep=False)

    return page


def _file(site: Site) -> Endpoint:
    async def file(request: Request) -> Response:
        build, _, name = request.path_params["path"].partition("/")
        asset = site.assets.get(name)
        if asset is not None:
            # While a new version rolls out, its page may ask the old one for files: near enough, not to keep.
            return answer(request, asset, keep=build == site.build)
        if "." in name:
            raise HTTPException(404, "the portal has no such file")
        return RedirectResponse(f"{request.scope.get('root_path', '')}/", status_code=303)

    return file
