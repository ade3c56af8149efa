"""Responses for the portal's files."""

import gzip
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from beacon_portal import portal_app, portal_routes

MAX_TRANSFERRED_BYTES = 100_000


@pytest.fixture
async def portal() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(portal_app())
    headers = {"accept-encoding": "identity"}
    async with httpx.AsyncClient(transport=transport, base_url="http://portal", headers=headers) as client:
        yield client


async def names_of(portal: httpx.AsyncClient) -> list[str]:
    page = (await portal.get("/")).text
    return [f"/{name}" for name in re.findall(r'(?:href|src)="(portal/[^"]+)"', page)]


async def test_every_referenced_file_exists_with_security_headers(
    portal: httpx.AsyncClient,
) -> None:
    names = await names_of(portal)
    assert any(name.endswith("/main.js") for name in names)
    assert any(name.endswith("/portal.css") for name in names)
    for name in ("/", *names):
        response = await portal.get(name)
        assert response.status_code == 200, name
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"


async def test_modules_import_only_files_that_exist(portal: httpx.AsyncClient) -> None:
    names = set(await names_of(portal))
    for name in (one for one in names if one.endswith(".js")):
        source = (await portal.get(name)).text
        for target in re.findall(r'from "([^"]+)"', source):
            assert str(httpx.URL(f"http://portal{name}").join(target).path) in names, (name, target)


async def test_the_page_has_no_inline_script_or_style(portal: httpx.AsyncClient) -> None:
    page = (await portal.get("/")).text
    assert not re.search(r"<script(?![^>]*src=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)


async def test_no_module_parses_text_as_html(portal: httpx.AsyncClient) -> None:
    for name in (one for one in await names_of(portal) if one.endswith(".js")):
        source = (await portal.get(name)).text
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", source), name


async def test_files_are_immutable_and_the_page_is_revalidated(portal: httpx.AsyncClient) -> None:
    page = await portal.get("/")
    assert page.headers["cache-control"] == "no-cache"
    style = await portal.get((await names_of(portal))[1])
    assert "immutable" in style.headers["cache-control"]


@pytest.mark.parametrize("path", ["/", "style"])
async def test_a_current_file_is_not_sent_again(portal: httpx.AsyncClient, path: str) -> None:
    address = path if path == "/" else (await names_of(portal))[1]
    first = await portal.get(address)
    again = await portal.get(address, headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    changed = await portal.get(address, headers={"if-none-match": '"other"'})
    assert changed.status_code == 200


async def test_head_has_the_headers_of_get(portal: httpx.AsyncClient) -> None:
    for name in ("/", *await names_of(portal)):
        got, head = await portal.get(name), await portal.head(name)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers == got.headers


async def test_files_are_compressed_if_the_client_accepts_it(portal: httpx.AsyncClient) -> None:
    plain = await portal.get("/")
    refused = await portal.get("/", headers={"accept-encoding": "gzip;q=0, br"})
    async with portal.stream("GET", "/", headers={"accept-encoding": "br, gzip"}) as packed:
        raw = b"".join([part async for part in packed.aiter_raw()])
    assert "content-encoding" not in refused.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"].lower() == "accept-encoding"
    assert packed.headers["etag"] != plain.headers["etag"]
    assert gzip.decompress(raw) == plain.content == refused.content


async def test_the_whole_portal_is_small(portal: httpx.AsyncClient) -> None:
    total = 0
    for name in ("/", *await names_of(portal)):
        head = await portal.head(name, headers={"accept-encoding": "gzip"})
        total += int(head.headers["content-length"])
    assert total <= MAX_TRANSFERRED_BYTES


@pytest.mark.parametrize(
    "path",
    [
        "/portal/x/../../app.py",
        "/portal/x/..%2f..%2fapp.py",
        "/portal/x/%2e%2e/app.py",
        "/portal/x//etc/hosts.js",
        "/portal/x/missing.js",
        "/portal/x/index.html",
    ],
)
async def test_only_files_of_the_portal_are_served(portal: httpx.AsyncClient, path: str) -> None:
    response = await portal.get(path)
    assert response.status_code == 404
    assert "import" not in response.text


async def test_an_unknown_path_redirects_to_the_page(portal: httpx.AsyncClient) -> None:
    response = await portal.get("/portal/somewhere")
    assert (response.status_code, response.headers["location"]) == (303, "/")


async def test_files_of_another_build_are_served_uncached(portal: httpx.AsyncClient) -> None:
    name = next(name for name in await names_of(portal) if name.endswith("main.js"))
    build = name.split("/")[2]
    response = await portal.get(name.replace(build, "0" * len(build)))
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-cache"


async def test_the_routes_keep_the_errors_of_the_application() -> None:
    async def submit(_: object) -> PlainTextResponse:
        return PlainTextResponse("accepted")

    app = Starlette(routes=[Route("/api/jobs", submit, methods=["POST"]), *portal_routes()])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://portal") as client:
        assert (await client.get("/api/jobs")).status_code == 405
        assert (await client.get("/api/unknown")).status_code == 404
        assert (await client.post("/")).status_code == 405
        assert (await client.get("/")).status_code == 200
