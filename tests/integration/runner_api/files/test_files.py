"""Files over HTTP: upload, download, isolation, limits, clean-up."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beacon_client.errors import BeaconError
from beacon_client.runner import RunnerClient
from beacon_files import open_store
from beacon_lifecycle import ManualClock
from beacon_runner.application.files import FileService
from beacon_runner.maintenance.file_cleanup import ORPHAN_AGE, FileCleanup
from beacon_runner.postgres.files import PostgresFiles
from tests.integration.runner_api.harness import CONFIG, ApiHarness, Caller, api_harness

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
UNKNOWN = "file_01k9x7p4f8q2r6s0t3v5w7y9za"


async def upload(caller: Caller, data: bytes = PNG, name: str = "cat.png") -> Any:
    response = await caller.http.post("/api/v1/files", files={"file": (name, data, "text/html")})
    assert response.status_code == 201, response.text
    return response.json()


def objects(api: ApiHarness) -> list[Path]:
    return [path for path in Path(api.files).rglob("*") if path.is_file()]


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob("*.part"))


async def test_an_uploaded_file_is_downloaded_unchanged(anna: Caller) -> None:
    file = await upload(anna)
    assert file["content_type"] == "image/png"
    assert (file["bytes"], file["sha256"]) == (len(PNG), hashlib.sha256(PNG).hexdigest())
    assert file["expires_at"] > file["created_at"]
    content = await anna.http.get(file["url"])
    assert content.content == PNG
    assert content.headers["content-type"] == "image/png"
    assert content.headers["x-content-type-options"] == "nosniff"
    assert content.headers["content-disposition"] == "attachment; filename*=UTF-8''cat.png"


async def test_a_raw_body_is_an_upload(anna: Caller) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield PNG[:10]
        yield PNG[10:]

    response = await anna.http.post(
        "/api/v1/files", content=pieces(), headers={"x-file-name": "gr%C3%BC%C3%9Fe.png"}
    )
    assert response.status_code == 201
    assert (response.json()["name"], response.json()["bytes"]) == ("grüße.png", len(PNG))


async def test_the_media_type_of_a_form_is_recognised_in_any_case(anna: Caller) -> None:
    part = b'--b\r\ncontent-disposition: form-data; name="file"; filename="cat.png"\r\n\r\n'
    response = await anna.http.post(
        "/api/v1/files",
        content=part + PNG + b"\r\n--b--\r\n",
        headers={"content-type": "Multipart/Form-Data; boundary=b"},
    )
    assert response.status_code == 201
    assert (response.json()["name"], response.json()["bytes"]) == ("cat.png", len(PNG))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ("filename*=UTF-8''gr%C3%BC%C3%9Fe.png", "grüße.png"),
        ("filename*=iso-8859-1'de'gr%FC%DFe.png", "grüße.png"),
        ("filename=\"cat.png\"; filename*=UTF-8''other.png", "cat.png"),
        ("filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", "passwd"),
        ("filename*=UTF-8''%00%0A", "file"),
        ("filename*=UTF-8''%FF%FE.png", "��.png"),
        ("filename*=no-such-charset''%FF.png", "ÿ.png"),
        ("filename*=%FF.png", "\ufffd.png"),
    ],
)
async def test_a_name_in_a_form_may_be_in_the_extended_notation(anna: Caller, names: str, shown: str) -> None:
    head = f'--b\r\ncontent-disposition: form-data; name="file"; {names}\r\n\r\n'.encode()
    response = await anna.http.post(
        "/api/v1/files",
        content=head + PNG + b"\r\n--b--\r\n",
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    assert response.status_code == 201, response.text
    assert (response.json()["name"], response.json()["bytes"]) == (shown, len(PNG))


@pytest.mark.parametrize("form", [False, True])
@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, GZIP", "Identity", ""])
async def test_a_compressed_body_is_not_stored(
    api: ApiHarness, anna: Caller, form: bool, encoding: str
) -> None:
    given = await anna.http.post(
        "/api/v1/files",
        **({"files": {"file": ("cat.png", PNG)}} if form else {"content": PNG}),
        headers={"content-encoding": encoding},
    )
    if encoding in ("Identity", ""):
        assert given.status_code == 201
        return
    assert (given.status_code, given.json()["code"]) == (415, "unsupported_encoding")
    assert "Content-Encoding" in given.json()["detail"]
    assert objects(api) == []


@pytest.mark.parametrize("header", ["Content-Transfer-Encoding: base64", "content-encoding: gzip"])
async def test_an_encoded_part_of_a_form_is_not_stored(api: ApiHarness, anna: Caller, header: str) -> None:
    head = f'--b\r\n{header}\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
    response = await anna.http.post(
        "/api/v1/files",
        content=head.encode() + b"aGVsbG8=\r\n--b--\r\n",
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_encoding")
    assert objects(api) == []


@pytest.mark.parametrize(
    ("given", "shown"),
    [("../../etc/passwd", "passwd"), ("C:\\a\\b.png", "b.png"), (" ", "file"), ("..", "..")],
)
async def test_a_name_is_never_a_path(api: ApiHarness, anna: Caller, given: str, shown: str) -> None:
    file = await upload(anna, name=given)
    assert file["name"] == shown
    (stored,) = objects(api)
    assert shown not in stored.name


async def test_html_is_served_as_text_to_save(anna: Caller) -> None:
    file = await upload(anna, b"<html><script>alert(1)</script></html>", "page.html")
    content = await anna.http.get(file["url"])
    assert content.headers["content-type"].startswith("text/plain")
    assert "sandbox" in content.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-9", PNG[:10]),
        ("bytes=100-", PNG[100:]),
        ("bytes=-5", PNG[-5:]),
        ("bytes=5-99999999", PNG[5:]),
    ],
)
async def test_ranges_are_served(anna: Caller, header: str, expected: bytes) -> None:
    file = await upload(anna)
    part = await anna.http.get(file["url"], headers={"range": header})
    assert (part.status_code, part.content) == (206, expected)
    assert part.headers["content-range"].endswith(f"/{len(PNG)}")


@pytest.mark.parametrize("header", ["bytes=9-2", "bytes=-", "lines=1-2", "bytes=0-1,5-6", "bytes=x-"])
async def test_malformed_ranges_are_ignored(anna: Caller, header: str) -> None:
    file = await upload(anna)
    whole = await anna.http.get(file["url"], headers={"range": header})
    assert (whole.status_code, whole.content) == (200, PNG)


@pytest.mark.parametrize("header", ["bytes=99999999-", "bytes=-0"])
async def test_a_range_outside_of_the_file_is_refused(anna: Caller, header: str) -> None:
    file = await upload(anna)
    refused = await anna.http.get(file["url"], headers={"range": header})
    assert (refused.status_code, refused.json()["code"]) == (416, "range_not_satisfiable")


async def test_a_known_file_is_not_sent_again(anna: Caller) -> None:
    file = await upload(anna)
    etag = (await anna.http.get(file["url"])).headers["etag"]
    again = await anna.http.get(file["url"], headers={"if-none-match": etag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("header", "status"),
    [("*", 304), ('"other", W/{etag}', 304), ('"other"', 200), ('"{hash}-other"', 200), ("{hash}", 200)],
)
async def test_a_condition_names_what_is_known(anna: Caller, header: str, status: int) -> None:
    file = await upload(anna)
    condition = header.format(etag=f'"{file["sha256"]}"', hash=file["sha256"])
    answer = await anna.http.get(file["url"], headers={"if-none-match": condition})
    assert (answer.status_code, answer.headers["etag"]) == (status, f'"{file["sha256"]}"')


async def test_a_page_can_request_the_bytes_instead_of_a_redirect(
    anna: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store_url(*_: object) -> str:
        return "https://store.example/cat"

    monkeypatch.setattr(FileService, "store_url", store_url)
    file = await upload(anna)
    signed = (await anna.http.post(f"/api/v1/files/{file['id']}/url")).json()["url"]
    for url in (f"{file['url']}?", f"{signed}&"):
        redirected = await anna.http.get(url, follow_redirects=False)
        assert (redirected.status_code, redirected.headers["location"]) == (307, "https://store.example/cat")
        assert (await anna.http.get(f"{url}redirect=false")).content == PNG


async def test_files_of_other_users_do_not_exist(api: ApiHarness, anna: Caller, admin: Caller) -> None:
    file = await upload(anna)
    bert = await api.user("bert")
    path = f"/api/v1/files/{file['id']}"
    for response in (
        await bert.http.get(path),
        await bert.http.get(f"{path}/content"),
        await bert.http.post(f"{path}/url"),
        await bert.http.delete(path),
        await bert.http.get(f"/api/v1/files/{UNKNOWN}"),
    ):
        assert (response.status_code, response.json()["code"]) == (404, "unknown_file")
    assert (await bert.get("/api/v1/files"))["files"] == []
    assert (await admin.get(path))["id"] == file["id"]
    assert (await anna.http.get(path)).status_code == 200


async def test_files_are_listed_newest_first_in_pages(anna: Caller) -> None:
    ids = [(await upload(anna))["id"] for _ in range(3)]
    page = await anna.get("/api/v1/files", limit=2)
    rest = await anna.get("/api/v1/files", cursor=page["next_cursor"])
    assert [one["id"] for one in page["files"] + rest["files"]] == ids[::-1]
    assert rest["next_cursor"] is None


async def test_a_deleted_file_leaves_nothing(api: ApiHarness, anna: Caller) -> None:
    file = await upload(anna)
    assert (await anna.http.delete(f"/api/v1/files/{file['id']}")).json() == file
    assert (await anna.http.get(file["url"])).status_code == 404
    assert objects(api) == []


async def test_a_signed_address_works_without_a_key_until_it_expires(api: ApiHarness, anna: Caller) -> None:
    file, other = await upload(anna), await upload(anna, b"other")
    signed = await anna.post(f"/api/v1/files/{file['id']}/url")
    anyone = api.caller(None)
    assert (await anyone.http.get(signed["url"])).content == PNG
    for changed in (
        signed["url"].replace(file["id"], other["id"]),
        signed["url"].replace("expires=", "expires=1"),
        signed["url"][:-1] + ("0" if signed["url"][-1] != "0" else "1"),
    ):
        assert (await anyone.http.get(changed)).status_code == 404
    await api.clock.advance(CONFIG.files.url_expires_s + 1)
    assert (await anyone.http.get(signed["url"])).status_code == 404


@pytest.mark.parametrize(
    "body",
    [{"files": {"image": ("a.png", PNG)}}, {"data": {"file": "text"}, "files": {"other": ("a", b"x")}}],
    ids=["wrong part", "text part"],
)
async def test_a_form_without_a_file_is_refused(api: ApiHarness, anna: Caller, body: dict[str, Any]) -> None:
    response = await anna.http.post("/api/v1/files", **body)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_field")
    assert objects(api) == []


SMALL_TIER = CONFIG.tiers["free"].model_copy(update={"storage_bytes": 1_500})
SMALL = CONFIG.model_copy(
    update={
        "files": CONFIG.files.model_copy(update={"max_bytes": 1_000}),
        "tiers": CONFIG.tiers | {"free": SMALL_TIER},
    }
)


async def test_files_and_users_have_limits(database_url: str, redis_url: str) -> None:
    async with api_harness(database_url, redis_url, SMALL) as api:
        anna = await api.user("anna", "free")
        large = await anna.http.post("/api/v1/files", content=bytes(1_001))
        assert (large.status_code, large.json()["code"]) == (413, "file_too_large")
        kept = await upload(anna, bytes(1_000))
        full = await anna.http.post("/api/v1/files", content=bytes(501))
        assert (full.status_code, full.json()["code"]) == (413, "storage_limit")
        assert (await anna.get("/api/v1/me"))["limits"]["storage_bytes"]["used"] == 1_000
        assert len(objects(api)) == 1
        await anna.http.delete(f"/api/v1/files/{kept['id']}")
        await upload(anna, bytes(501))


async def test_concurrent_uploads_do_not_exceed_the_storage_limit(database_url: str, redis_url: str) -> None:
    async with api_harness(database_url, redis_url, SMALL) as api:
        anna = await api.user("anna", "free")
        uploads = [anna.http.post("/api/v1/files", content=bytes(600)) for _ in range(6)]
        statuses = [response.status_code for response in await asyncio.gather(*uploads)]
        assert sorted(statuses) == [201, 201, 413, 413, 413, 413]
        assert len(objects(api)) == 2


async def test_unfinished_uploads_count_towards_the_storage_limit(database_url: str, redis_url: str) -> None:
    async with api_harness(database_url, redis_url, SMALL) as api:
        anna = await api.user("anna", "free")
        sent, ended = asyncio.Event(), asyncio.Event()

        async def unfinished() -> AsyncIterator[bytes]:
            yield bytes(900)
            sent.set()
            await ended.wait()

        slow = asyncio.create_task(anna.http.post("/api/v1/files", content=unfinished()))
        await sent.wait()
        refused = await anna.http.post("/api/v1/files", content=bytes(601))
        assert (refused.status_code, refused.json()["code"]) == (413, "storage_limit")
        await upload(anna, bytes(600))
        ended.set()
        assert (await slow).status_code == 201
        assert (await anna.get("/api/v1/me"))["limits"]["storage_bytes"]["used"] == 1_500
        full = await anna.http.post("/api/v1/files", content=b"x")
        assert (full.status_code, full.json()["code"]) == (413, "storage_limit")


async def test_an_unavailable_store_records_nothing(api: ApiHarness, anna: Caller) -> None:
    obstacle = Path(api.files, "uploads")
    await asyncio.to_thread(obstacle.write_text, "a file where the folder should be")
    response = await anna.http.post("/api/v1/files", content=PNG)
    assert (response.status_code, response.json()["code"]) == (503, "file_store_unavailable")
    assert api.files not in response.text
    assert (await anna.get("/api/v1/files"))["files"] == []


async def test_bytes_that_cannot_be_read_are_a_503(api: ApiHarness, anna: Caller) -> None:
    file = await upload(anna)
    signed = (await anna.http.post(f"/api/v1/files/{file['id']}/url")).json()["url"]
    (stored,) = objects(api)
    await asyncio.to_thread(stored.unlink)
    for path in (file["url"], signed):
        response = await anna.http.get(path)
        assert (response.status_code, response.json()["code"]) == (503, "file_store_unavailable")
        assert "etag" not in response.headers
        assert api.files not in response.text


async def test_cleanup_removes_expired_files_and_orphans(api: ApiHarness, anna: Caller) -> None:
    store, clock = open_store(api.files), ManualClock(datetime.now(UTC))

    async def orphan() -> AsyncIterator[bytes]:
        yield b"of a process that died before it recorded the file"

    records = PostgresFiles(api.store.database)
    cleanup = FileCleanup(records, store, clock, orphans_every_s=-1)
    await cleanup.run_once()  # the store is empty: it belongs to this database from now on
    await store.put(f"uploads/{'0' * 32}/{'1' * 32}", orphan(), max_bytes=100)
    await store.put(f"outputs/11/{'1' * 32}", orphan(), max_bytes=100)
    await store.put("uploads/readme.txt", orphan(), max_bytes=100)
    kept = await upload(anna)
    assert (await cleanup.run_once()).count == 0  # a young orphan may be an upload that is being recorded
    await clock.advance((ORPHAN_AGE + timedelta(hours=1)).total_seconds())
    assert (await cleanup.run_once()).count == 2
    assert len(objects(api)) == 3
    await api.store.database.execute("UPDATE files SET expires_at = now() - interval '1 second'")
    assert (await anna.http.get(kept["url"])).status_code == 404
    assert (await anna.get("/api/v1/files"))["files"] == []
    assert (await cleanup.run_once()).count == 1
    assert {path.name for path in objects(api)} == {"readme.txt", "database"}
    assert (await anna.http.get(kept["url"])).status_code == 404


async def test_the_client_transfers_files(api: ApiHarness, tmp_path: Path) -> None:
    key = await api.key("anna")
    source, target = tmp_path / "grüße.png", tmp_path / "copy.png"
    await asyncio.to_thread(source.write_bytes, PNG)
    async with RunnerClient("http://runner", key, transport=api.transport) as client:
        file = await client.files.upload(source)
        assert (file.name, file.bytes) == ("grüße.png", len(PNG))
        assert [one.id async for one in client.files.list()] == [file.id]
        assert await client.files.download(file.id, target) == len(PNG)
        assert await asyncio.to_thread(target.read_bytes) == PNG
        assert (await client.files.url(file.id)).url.startswith("/files/")
        await client.files.delete(file.id)
        with pytest.raises(BeaconError, match="unknown_file"):
            await client.files.download(file.id, target)
    assert not leftovers(tmp_path)


async def test_a_form_that_ends_inside_of_the_file_stores_nothing(api: ApiHarness, anna: Caller) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf of it'
    response = await anna.http.post(
        "/api/v1/files", content=body, headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert (response.status_code, response.json()["code"]) == (400, "invalid_body")
    assert objects(api) == []


async def test_a_form_of_many_parts_is_refused(api: ApiHarness, anna: Caller) -> None:
    body = b"--x\r\nA: b\r\n\r\n\r\n" * 1_001
    response = await anna.http.post(
        "/api/v1/files", content=body, headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert (response.status_code, response.json()["code"]) == (400, "invalid_body")
    assert "parts" in response.json()["detail"]
    assert objects(api) == []


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=x"])
async def test_a_body_that_is_no_form_is_refused(anna: Caller, kind: str) -> None:
    response = await anna.http.post("/api/v1/files", content=b"no form", headers={"content-type": kind})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_body")
