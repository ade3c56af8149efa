"""Files in the portal: uploads, the files of jobs, and how large jobs load."""

import re
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import Page, expect

from beacon_gpusim.core.media import MediaKind, media_of
from beacon_gpusim.core.outputs import Prompt
from tests.browser.portal_page import PortalPage
from tests.browser.stack_admin import StackAdmin

pytestmark = pytest.mark.stack
STEPS = ("prompt_enhancer", "fast_chat_llm", "image_gen", "model_3d_gen")


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


def content_requests(page: Page) -> list[str]:
    """The files that the page requests from now on."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if "/content" in request.url else None)
    return found


def test_images_of_a_matrix_are_shown_enlarged_and_saved(
    portal: PortalPage, key: str, stack_admin: StackAdmin
) -> None:
    page = portal.page
    stack_admin.make_instant("flux")
    job = stack_admin.submit(key, images(questions=1, models=("flux",), regions=("US", "EU")))
    portal.sign_in(key)
    portal.open(f"/jobs/{job}")
    expect(portal.state()).to_have_text(re.compile("Completed"))
    expect(page.locator(".cell .thumbnail")).to_have_count(2)
    europe = portal.answer("flux", "EU").get_by_role("button", name="Enlarge q1 · flux · EU")
    expect(europe.locator("img")).to_have_js_property("naturalWidth", 384)
    europe.focus()
    page.keyboard.press("Enter")
    zoom = page.get_by_role("dialog", name="q1 · flux · EU")
    expect(zoom.get_by_role("img", name="q1 · flux · EU")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    other = page.get_by_role("dialog", name="q1 · flux · US")
    expect(other.get_by_role("img", name="q1 · flux · US")).to_have_js_property("naturalWidth", 384)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(europe).to_be_focused()
    with page.expect_download() as saved:
        portal.answer("flux", "EU").get_by_role("button", name="Download").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as archive:
        page.get_by_role("button", name="Download all as ZIP").click()
    with ZipFile(archive.value.path()) as files:
        assert len(files.namelist()) == 2


def test_sounds_play_and_3d_models_are_drawn(portal: PortalPage, key: str, stack_admin: StackAdmin) -> None:
    page = portal.page
    stack_admin.make_instant("music", *STEPS)
    sound = {"kind": "generation", "model": "music", "prompt": "rain", "duration": 7.5}
    song = stack_admin.submit(key, sound)
    model = stack_admin.submit(
        key, {"kind": "pipeline", "feature": "full_pipeline", "input": {"prompt": "a gem"}}
    )
    portal.sign_in(key)
    portal.open(f"/jobs/{song}")
    player = page.locator("audio")
    expect(player).to_have_js_property("duration", 7.5)
    address = player.evaluate("audio => audio.src")
    assert "signature=" in address
    assert key not in address
    portal.open(f"/jobs/{model}")
    portal.answer("model_3d_gen", "US").scroll_into_view_if_needed()
    canvas = page.get_by_role("img", name="3D model: model_3d_gen · US")
    expect(canvas).to_be_visible()
    before = canvas.screenshot()
    canvas.focus()
    page.keyboard.press("ArrowRight")
    assert canvas.screenshot() != before


def test_a_page_of_400_images_loads_those_in_view(
    portal: PortalPage, key: str, stack_admin: StackAdmin
) -> None:
    page = portal.page
    stack_admin.make_instant("flux", "sdxl")
    job = stack_admin.submit(key, images(questions=100, models=("flux", "sdxl"), regions=("US", "EU")))
    portal.sign_in(key)
    portal.open(f"/jobs/{job}")
    expect(portal.state()).to_have_text(re.compile("Completed"))
    loaded = content_requests(page)
    page.reload()
    expect(page.locator(".cell[data-tone=ok]")).to_have_count(200)
    expect(page.locator(".cell .thumbnail").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert 0 < len(loaded) < 120
    page.get_by_role("button", name="Next", exact=True).click()
    expect(page.locator(".cell .thumbnail").first).to_be_visible()  # outputs beyond the first page
    portal.cell("q100", "sdxl", "EU").scroll_into_view_if_needed()
    expect(portal.cell("q100", "sdxl", "EU").locator(".thumbnail")).to_be_visible()


def images(*, questions: int, models: tuple[str, ...], regions: tuple[str, ...]) -> dict[str, object]:
    prompts = [{"id": f"q{number}", "prompt": f"A city {number}"} for number in range(1, questions + 1)]
    return {
        "kind": "matrix",
        "name": "images",
        "questions": prompts,
        "models": list(models),
        "regions": list(regions),
        "failover": "pinned",
    }


def test_a_file_dropped_into_the_form_is_an_input_of_the_job(
    portal: PortalPage, key: str, stack_admin: StackAdmin, tmp_path: Path
) -> None:
    stack_admin.make_instant("flux")
    page = portal.page
    photo = picture(tmp_path, "photo.png", 3)
    portal.sign_in(key)
    portal.go("Submit")
    page.get_by_role("radio", name="Generation").check(force=True)
    page.get_by_label("Model", exact=True).select_option("flux")
    page.get_by_label("Prompt", exact=True).fill("with a hat")
    data = page.evaluate_handle(
        """bytes => {
          const data = new DataTransfer();
          data.items.add(new File([Uint8Array.from(bytes)], "photo.png"));
          return data;
        }""",
        list(photo.read_bytes()),
    )
    page.get_by_label("File (optional)", exact=True).dispatch_event("drop", {"dataTransfer": data})
    expect(page.get_by_text("photo.png ·")).to_be_visible()
    page.reload()
    expect(page.get_by_text("photo.png ·")).to_be_visible()  # the draft keeps it
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    expect(page.get_by_role("region", name="Input").get_by_role("button", name="Enlarge")).to_be_visible()


def test_a_form_made_from_a_schema_submits_its_values_and_its_file(
    portal: PortalPage, key: str, stack_admin: StackAdmin, tmp_path: Path
) -> None:
    stack_admin.make_instant("image_gen")
    page = portal.page
    portal.sign_in(key)
    portal.go("Submit")
    page.get_by_role("radio", name="Generation").check(force=True)
    page.get_by_label("Model", exact=True).select_option("image_gen")
    expect(page.get_by_text("How it looks")).to_be_visible()
    steps = page.get_by_label("Steps (optional)", exact=True)
    expect(steps).to_have_value("20")
    steps.fill("99")
    submit = page.get_by_role("button", name="Submit", exact=True)
    submit.click()
    expect(page.get_by_text("Enter a value.")).to_be_visible()
    expect(steps).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Prompt", exact=True).fill("a lighthouse")
    steps.fill("30")
    page.get_by_label("Style (optional)", exact=True).select_option(label="drawing")
    page.get_by_label("Photo (optional)", exact=True).set_input_files(picture(tmp_path, "photo.png", 4))
    expect(page.get_by_text("photo.png ·")).to_be_visible()
    submit.click()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    given = page.get_by_role("region", name="Input")
    expect(given).to_contain_text("drawing")
    expect(given).to_contain_text("30")
    expect(given.get_by_role("button", name="Enlarge")).to_be_visible()
    expect(page.get_by_role("article").get_by_role("button", name="Enlarge")).to_be_visible()
