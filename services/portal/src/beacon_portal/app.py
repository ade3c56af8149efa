"""Routes of the portal: the page at `/`, its files under `/portal/<build>/`."""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from beacon_portal.responses import file_response
from beacon_portal.site import Site, load_site

Endpoint = Callable[[Request], Awaitable[Response]]


def portal_routes() -> list[BaseRoute]:
    """Routes to add after an application's own, so that those keep their 404 and 405 responses."""
    site = load_site()
    return [
        Route("/", _page(site), name="portal", include_in_schema=False),
        Route("/portal/{path:path}", _file(site), name="portal_file", include_in_schema=False),
    ]


def portal_app() -> ASGIApp:
    """The portal without an API."""
    return Starlette(routes=portal_routes())


def _page(site: Site) -> Endpoint:
    async def page(request: Request) -> Response:
        return file_response(request, site.index, immutable=False)

    return page


def _file(site: Site) -> Endpoint:
    async def file(request: Request) -> Response:
        build, _, name = request.path_params["path"].partition("/")
        asset = site.assets.get(name)
        if asset is not None:
            # During a rollout the page of the new version may request files of the old one: not cacheable.
            return file_response(request, asset, immutable=build == site.build)
        if "." in name:
            raise HTTPException(404, "this file does not exist")
        return RedirectResponse(f"{request.scope.get('root_path', '')}/", status_code=303)

    return file
