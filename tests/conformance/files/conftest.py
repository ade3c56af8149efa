"""Both kinds of file store: a local directory and an S3 API."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

from beacon_files import FileStore, open_store

REGION = "us-east-1"


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    """The address of an S3 server in this process."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["local", "s3"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "local":
        return str(tmp_path / "files")
    endpoint: str = request.getfixturevalue("s3_url")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    bucket = f"files-{uuid4().hex}"
    boto3.client("s3", endpoint_url=endpoint, region_name=REGION).create_bucket(Bucket=bucket)
    return f"s3://{bucket}/beacon"


@pytest.fixture
def store(store_url: str) -> FileStore:
    return open_store(store_url)
