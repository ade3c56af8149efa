"""The address of the file store is checked when a process starts."""

import pytest

from beacon_config.file_store_url import checked_file_store_url


@pytest.mark.parametrize(
    "url",
    [
        ".beacon/files",
        "/var/lib/beacon",
        "file:///tmp/x",
        "s3://bucket",
        "s3://bucket/prefix",
        "gs://b",
        "az://b/c",
    ],
)
def test_directories_and_buckets_are_addresses(url: str) -> None:
    assert checked_file_store_url(url) == url


@pytest.mark.parametrize("url", ["s4://bucket", "http://bucket", "s3://", "s3:/bucket"])
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is neither a directory|needs a bucket"):
        checked_file_store_url(url)
