"""Accessibility of every page, in both themes and at two widths."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.portal_page import PortalPage
from tests.browser.stack_admin import StackAdmin
from tests.browser.test_files import picture
from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack

PHONE = ViewportSize(width=390, height=844)
WIDE = ViewportSize(width=1280, height=800)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
VIEWS: tuple[tuple[Literal["light", "dark"], ViewportSize], ...] = (
    ("dark", PHONE),
    ("light", PHONE),
    ("dark", WIDE),
    ("light", WIDE),
)
PAGES = {
    "Jobs": "/jobs",
    "Submit a job": "/submit",
    "Files": "/files",
    "Queue": "/queue",
    "Regions": "/regions",
    "Limits": "/limits",
    "Webhooks": "/webhooks",
    "Usage": "/usage",
    "Runtime": "/admin",
    "Backends": "/admin/backends",
    "Dead letters": "/admin/dead",
    "Users": "/admin/users",
    "Audit log": "/admin/audit",
    "Not found": "/nowhere",
}


@pytest.fixture(scope="module")
def jobs(stack: RunningStack) -> Iterator[dict[str, str]]:
    """A job of each kind, and one that failed."""
    question = {"id": "q1", "prompt": "Is the sky blue?"}
    model = "llama3.2-1b"
    regions = ["US", "EU", "ASIA"]
    matrix = {
        "kind": "matrix",
        "name": "matrix",
        "questions": [question],
        "models": [model],
        "regions": regions,
    }
    with StackAdmin(stack) as admin:
        key = stack.credentials.admin_key
        found = {
            "matrix": admin.submit(key, matrix),
            "pipeline": admin.submit(key, pipeline("full_pipeline")),
            "image": admin.submit(key, generation("flux")),
            "sound": admin.submit(key, generation("music")),
            "images": admin.submit(
                key, {**matrix, "name": "images", "models": ["flux"], "regions": ["US", "EU"]}
            ),
        }
        admin.control("POST", "faults", {"kind": "error", "status": 500, "model": "sdxl"})
        found["failed"] = admin.submit(key, generation("sdxl"))
        yield found


def pipeline(feature: str) -> dict[str, object]:
    return {"kind": "pipeline", "name": "pipeline", "feature": feature, "input": {"prompt": "A city"}}


def generation(model: str) -> dict[str, object]:
    return {"kind": "generation", "name": model, "model": model, "prompt": "A cat"}


AXE = Axe()
LOADED_AXE = Axe(axe_script="0")  # evaluated by `run` each time: the script is half a megabyte


def check_access(page: Page) -> None:
    loaded = page.evaluate("() => 'axe' in window")
    found = (LOADED_AXE if loaded else AXE).run(page)
    assert found.violations_count == 0, found.generate_report()


def check(page: Page) -> None:
    """The heading has the focus, and the page is accessible in all views."""
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    check_views(page)


def check_views(page: Page) -> None:
    """Axe reports nothing in either theme, and no page scrolls sideways."""
    for theme, size in VIEWS:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size(size)
        check_access(page)
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


def test_every_page_is_accessible(portal: PortalPage, jobs: dict[str, str], stack: RunningStack) -> None:
    portal.page.goto(stack.credentials.portal_url)
    expect(portal.heading("Sign in")).to_be_visible()
    check(portal.page)
    portal.sign_in(stack.credentials.admin_key)
    for name, path in PAGES.items():
        portal.open(path)
        expect(portal.heading(name)).to_be_visible()
        expect(portal.page.get_by_text("Loading…")).to_be_hidden()
        portal.page.wait_for_load_state("networkidle")
        check(portal.page)
    for name, job in jobs.items():
        portal.open(f"/jobs/{job}")
        expect(portal.state()).to_have_text(re.compile("Failed" if name == "failed" else "Completed"))
        check(portal.page)


def test_dialogs_and_menus_are_accessible(
    portal: PortalPage, jobs: dict[str, str], stack: RunningStack
) -> None:
    page = portal.page
    portal.sign_in(stack.credentials.admin_key)
    page.get_by_role("button", name="admin", exact=True).click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    check_access(page)
    page.keyboard.press("Escape")
    portal.open("/admin/users")
    page.get_by_role("button", name="Keys of admin").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Revoke").first).to_be_visible()
    check_access(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    portal.open("/admin/backends")
    for name in ("Drain eu-1", "Remove us-1"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            check_access(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_hidden()


def test_images_and_the_forms_with_files_are_accessible(
    portal: PortalPage, jobs: dict[str, str], stack: RunningStack, tmp_path: Path
) -> None:
    page = portal.page
    photo = picture(tmp_path, "photo.png", 1)
    portal.sign_in(stack.credentials.admin_key)
    portal.open(f"/jobs/{jobs['images']}")
    expect(portal.state()).to_have_text(re.compile("Completed"))
    expect(page.locator(".cell .thumbnail")).to_have_count(2)
    check(page)
    page.get_by_role("button", name="Enlarge q1 · flux · US").click()
    expect(page.get_by_role("dialog").get_by_role("img")).to_be_visible()
    check_views(page)
    page.keyboard.press("Escape")
    portal.go("Files")
    page.get_by_label("Upload files").set_input_files([photo])
    expect(page.get_by_role("row", name="photo.png")).to_be_visible()
    check_views(page)
    portal.go("Submit")
    page.get_by_role("radio", name="Generation").check(force=True)
    for model in ("music", "image_gen"):
        page.get_by_label("Model", exact=True).select_option(model)
        check_views(page)
    page.get_by_label("Model", exact=True).select_option("flux")
    page.get_by_label("File (optional)", exact=True).set_input_files(photo)
    expect(page.get_by_text("photo.png ·")).to_be_visible()
    check_views(page)


@pytest.mark.parametrize(("theme", "other"), [("light", "Dark"), ("dark", "Light")])
def test_a_chosen_theme_survives_a_reload(
    portal: PortalPage, stack: RunningStack, theme: Literal["light", "dark"], other: str
) -> None:
    page = portal.page
    page.emulate_media(color_scheme=theme)
    portal.sign_in(stack.credentials.admin_key)
    ground = "() => getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.get_by_role("button", name="admin", exact=True).click()
    page.get_by_label(other).check()
    assert page.evaluate(ground) != before
    page.reload()
    expect(portal.heading("Jobs")).to_be_visible()
    assert page.evaluate(ground) != before


def test_the_portal_works_by_keyboard(portal: PortalPage, stack: RunningStack) -> None:
    page = portal.page
    page.goto(stack.credentials.portal_url)
    page.get_by_label("API key").focus()
    page.keyboard.type(stack.credentials.admin_key)
    page.keyboard.press("Enter")
    expect(portal.heading("Jobs")).to_be_focused()
    page.get_by_role("link", name="Skip to content").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(portal.heading("Jobs")).to_be_visible()
    page.get_by_role("link", name="Regions").focus()
    page.keyboard.press("Enter")
    expect(portal.heading("Regions")).to_be_focused()
