"""How the portal's files are answered."""

import gzip
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from beacon_portal import portal_app, portal_routes

WEIGHT = 100_000


@pytest.fixture
async def portal() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(portal_app())
    headers = {"accept-encoding": "identity"}
    async with httpx.AsyncClient(transport=transport, base_url="http://portal", headers=headers) as client:
        yield client


async def names_of(portal: httpx.AsyncClient) -> list[str]:
    page = (await portal.get("/")).text
    return [f"/{name}" for name in re.findall(r'(?:href|src)="(portal/[^"]+)"', page)]


async def test_every_file_that_the_page_names_is_there_under_the_same_rules(
    portal: httpx.AsyncClient,
) -> None:
    names = await names_of(portal)
    assert any(name.endswith("/main.js") for name in names)
    assert any(name.endswith("/portal.css") for name in names)
    for name in ("/", *names):
        answer = await portal.get(name)
        assert answer.status_code == 200, name
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


async def test_modules_import_only_files_that_exist(portal: httpx.AsyncClient) -> None:
    names = set(await names_of(portal))
    for name in (one for one in names if one.endswith(".js")):
        source = (await portal.get(name)).text
        for target in re.findall(r'from "([^"]+)"', source):
            assert str(httpx.URL(f"http://portal{name}").join(target).path) in names, (name, target)


async def test_no_page_holds_inline_script_or_style(portal: httpx.AsyncClient) -> None:
    page = (await portal.get("/")).text
    assert not re.search(r"<script(?![^>]*src=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)


async def test_no_module_turns_text_into_markup(portal: httpx.AsyncClient) -> None:
    for name in (one for one in await names_of(portal) if one.endswith(".js")):
        source = (await portal.get(name)).text
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", source), name


async def test_files_may_be_kept_and_the_page_is_asked_for_again(portal: httpx.AsyncClient) -> None:
    page = await portal.get("/")
    assert page.headers["cache-control"] == "no-cache"
    style = await portal.get((await names_of(portal))[1])
    assert "immutable" in style.headers["cache-control"]


@pytest.mark.parametrize("path", ["/", "style"])
async def test_what_the_browser_has_is_not_sent_again(portal: httpx.AsyncClient, path: str) -> None:
    address = path if path == "/" else (await names_of(portal))[1]
    first = await portal.get(address)
    again = await portal.get(address, headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    changed = await portal.get(address, headers={"if-none-match": '"other"'})
    assert changed.status_code == 200


async def test_head_answers_where_get_does(portal: httpx.AsyncClient) -> None:
    for name in ("/", *await names_of(portal)):
        got, head = await portal.get(name), await portal.head(name)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers == got.headers


async def test_packed_only_for_those_who_can_unpack(portal: httpx.AsyncClient) -> None:
    plain = await portal.get("/")
    refused = await portal.get("/", headers={"accept-encoding": "gzip;q=0, br"})
    async with portal.stream("GET", "/", headers={"accept-encoding": "br, gzip"}) as packed:
        raw = b"".join([part async for part in packed.aiter_raw()])
    assert "content-encoding" not in refused.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"].lower() == "accept-encoding"
    assert packed.headers["etag"] != plain.headers["etag"]
    assert gzip.decompress(raw) == plain.content == refused.content


async def test_the_whole_portal_is_light(portal: httpx.AsyncClient) -> None:
    total = 0
    for name in ("/", *await names_of(portal)):
        head = await portal.head(name, headers={"accept-encoding": "gzip"})
        total += int(head.headers["content-length"])
    assert total <= WEIGHT


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
async def test_nothing_but_its_own_files_is_given(portal: httpx.AsyncClient, path: str) -> None:
    answer = await portal.get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text


async def test_a_place_that_is_not_there_leads_to_the_page(portal: httpx.AsyncClient) -> None:
    answer = await portal.get("/portal/somewhere")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_the_files_of_another_version_are_given_but_not_to_keep(portal: httpx.AsyncClient) -> None:
    name = next(name for name in await names_of(portal) if name.endswith("main.js"))
    build = name.split("/")[2]
    answer = await portal.get(name.replace(build, "0" * len(build)))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"


async def test_the_routes_leave_an_application_its_own_refusals() -> None:
    async def submit(_: object) -> PlainTextResponse:
        return PlainTextResponse("taken")

    app = Starlette(routes=[Route("/api/jobs", submit, methods=["POST"]), *portal_routes()])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://portal") as client:
        assert (await client.get("/api/jobs")).status_code == 405
        assert (await client.get("/api/unknown")).status_code == 404
        assert (await client.post("/")).status_code == 405
        assert (await client.get("/")).status_code == 200
