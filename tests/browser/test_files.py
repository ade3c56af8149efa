"""Files in the portal: uploads, the files of jobs, and how large jobs load."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from beacon_gpusim.core.media import MediaKind, media_of
from beacon_gpusim.core.outputs import Prompt
from tests.browser.portal_page import PortalPage

pytestmark = pytest.mark.stack


def picture(folder: Path, name: str, seed: int) -> Path:
    path = folder / name
    path.write_bytes(b"".join(media_of(MediaKind.IMAGE, Prompt("m", "US", name, seed=seed)).parts))
    return path


def test_files_are_uploaded_listed_downloaded_and_deleted(
    portal: PortalPage, key: str, tmp_path: Path
) -> None:
    page = portal.page
    cat, dog = picture(tmp_path, "cat.png", 1), picture(tmp_path, "dog <b>.png", 2)
    portal.sign_in(key)
    portal.go("Files")
    expect(page.get_by_text("No files yet")).to_be_visible()
    page.get_by_label("Upload files").set_input_files([cat, dog])
    expect(page.get_by_text("2 files uploaded")).to_be_visible()
    row = page.get_by_role("row", name="dog <b>.png")
    expect(row).to_contain_text("image/png")
    expect(page.get_by_role("region", name="Storage")).to_contain_text(re.compile(r"\d kB used of 50\.0 GB"))
    with page.expect_download() as saved:
        row.get_by_role("button", name="Download").click()
    assert saved.value.path().read_bytes() == dog.read_bytes()
    assert key not in saved.value.url
    row.get_by_role("button", name="Delete").click()
    portal.confirm("Delete the file")
    expect(row).to_be_hidden()
    expect(page.get_by_role("row", name="cat.png")).to_be_visible()
