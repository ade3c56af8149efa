"""Every page in both themes and at two widths: usable without seeing it, without a mouse, and on a phone."""

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.desk import Backstage, Desk
from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack

PHONE = ViewportSize(width=390, height=844)
WIDE = ViewportSize(width=1280, height=800)
VIEWS: tuple[tuple[Literal["light", "dark"], ViewportSize], ...] = (
    ("dark", PHONE),
    ("light", PHONE),
    ("dark", WIDE),
    ("light", WIDE),
)
PLACES = {
    "Jobs": "/jobs",
    "Submit a job": "/submit",
    "Queue": "/queue",
    "Regions": "/regions",
    "Runtime": "/admin",
    "Dead letters": "/admin/dead",
    "Users": "/admin/users",
    "Not found": "/nowhere",
}


@pytest.fixture(scope="module")
def jobs(stack: RunningStack) -> Iterator[dict[str, str]]:
    """A job of each kind, and one that died."""
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
    with Backstage(stack) as behind:
        key = stack.credentials.admin_key
        found = {
            "matrix": behind.submit(key, matrix),
            "pipeline": behind.submit(key, pipeline("text_only")),
            "generation": behind.submit(key, generation("flux")),
        }
        behind.control("POST", "faults", {"kind": "error", "status": 500, "model": "sdxl"})
        found["failed"] = behind.submit(key, generation("sdxl"))
        yield found


def pipeline(feature: str) -> dict[str, object]:
    return {"kind": "pipeline", "name": "pipeline", "feature": feature, "input": {"prompt": "A city"}}


def generation(model: str) -> dict[str, object]:
    return {"kind": "generation", "name": model, "model": model, "prompt": "A cat"}


def check_access(page: Page) -> None:
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def check(page: Page) -> None:
    """The heading has the focus, axe finds nothing in either theme, and nothing is wider than a phone."""
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    for theme, size in VIEWS:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size(size)
        check_access(page)
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


def test_every_page_can_be_used_by_everybody(desk: Desk, jobs: dict[str, str], stack: RunningStack) -> None:
    desk.page.goto(stack.credentials.portal_url)
    expect(desk.heading("Sign in")).to_be_visible()
    check(desk.page)
    desk.sign_in(stack.credentials.admin_key)
    for name, place in PLACES.items():
        desk.open(place)
        expect(desk.heading(name)).to_be_visible()
        expect(desk.page.get_by_text("Loading…")).to_be_hidden()
        desk.page.wait_for_load_state("networkidle")
        check(desk.page)
    for name, job in jobs.items():
        desk.open(f"/jobs/{job}")
        expect(desk.state()).to_have_text(re.compile("Failed" if name == "failed" else "Completed"))
        check(desk.page)


def test_dialogs_and_menus_can_be_used_by_everybody(
    desk: Desk, jobs: dict[str, str], stack: RunningStack
) -> None:
    page = desk.page
    desk.sign_in(stack.credentials.admin_key)
    page.get_by_role("button", name="admin", exact=True).click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    check_access(page)
    page.keyboard.press("Escape")
    desk.open("/admin/users")
    page.get_by_role("button", name="Keys of admin").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Revoke").first).to_be_visible()
    check_access(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


@pytest.mark.parametrize(("theme", "other"), [("light", "Dark"), ("dark", "Light")])
def test_a_chosen_theme_outlives_a_reload(
    desk: Desk, stack: RunningStack, theme: Literal["light", "dark"], other: str
) -> None:
    page = desk.page
    page.emulate_media(color_scheme=theme)
    desk.sign_in(stack.credentials.admin_key)
    ground = "() => getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.get_by_role("button", name="admin", exact=True).click()
    page.get_by_label(other).check()
    assert page.evaluate(ground) != before
    page.reload()
    expect(desk.heading("Jobs")).to_be_visible()
    assert page.evaluate(ground) != before


def test_the_keyboard_is_enough(desk: Desk, stack: RunningStack) -> None:
    page = desk.page
    page.goto(stack.credentials.portal_url)
    page.get_by_label("API key").focus()
    page.keyboard.type(stack.credentials.admin_key)
    page.keyboard.press("Enter")
    expect(desk.heading("Jobs")).to_be_focused()
    page.get_by_role("link", name="Skip to content").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(desk.heading("Jobs")).to_be_visible()
    page.get_by_role("link", name="Regions").focus()
    page.keyboard.press("Enter")
    expect(desk.heading("Regions")).to_be_focused()
