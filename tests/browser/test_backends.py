"""Backends in the administration: drained, resumed, added and removed, each after a confirmation."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Console
from tests.browser.portal_page import PortalPage
from tests.browser.stack_admin import LLAMA, StackAdmin, matrix
from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack


@pytest.fixture
def backends(portal: PortalPage, stack: RunningStack, stack_admin: StackAdmin) -> Iterator[PortalPage]:
    """The page, on the configuration of the stack, which is restored at the end."""
    portal.sign_in(stack.credentials.admin_key)
    portal.go("Admin")
    portal.page.get_by_role("link", name="Backends").click()
    expect(portal.heading("Backends")).to_be_visible()
    yield portal
    stack_admin.roll_back(1)


def row(portal: PortalPage, backend: str) -> Locator:
    return portal.page.get_by_role("row").filter(has=portal.page.get_by_text(backend, exact=True))


def press(button: Locator) -> None:
    """With the keyboard alone."""
    button.focus()
    button.press("Enter")


def test_a_drain_ends_runs_and_holds_others_until_it_is_resumed(
    backends: PortalPage, key: str, stack_admin: StackAdmin
) -> None:
    page, us = backends.page, row(backends, "us-1")
    stack_admin.hold(LLAMA)
    stack_admin.submit(key, matrix(LLAMA))
    expect(us).to_contain_text("1 of 4")
    press(us.get_by_role("button", name="Drain us-1"))
    expect(page.get_by_role("dialog")).to_contain_text("Running requests end there")
    expect(page.get_by_role("button", name="Go back")).to_be_focused()
    page.keyboard.press("Escape")
    expect(us).not_to_contain_text("Draining")
    press(us.get_by_role("button", name="Drain us-1"))
    press(page.get_by_role("dialog").get_by_role("button", name="Drain"))
    expect(page.get_by_text("us-1 starts nothing until it is resumed (revision")).to_be_visible()
    expect(us).to_contain_text("Draining")
    stack_admin.release()
    expect(us).to_contain_text("Drained")
    waiting = stack_admin.submit(key, matrix(LLAMA))
    press(us.get_by_role("button", name="Resume us-1"))
    backends.confirm("Resume")
    expect(us).to_contain_text("Healthy")
    backends.open(f"/jobs/{waiting}")
    expect(backends.state()).to_have_text(re.compile("Completed"))


def test_a_backend_is_added_and_removed(backends: PortalPage, stack: RunningStack) -> None:
    page = backends.page
    form = page.get_by_role("region", name="New backend")
    press(form.get_by_role("button", name="Add backend"))
    expect(form.get_by_label("Name")).to_be_focused()
    expect(form.get_by_label("Name")).to_have_accessible_description("Enter a value.")
    form.get_by_label("Name").fill("us-2")
    form.get_by_label("Region").fill("US")
    form.get_by_label("URL").fill(f"{stack.url('gpusim-us')}/v1")
    form.get_by_label("Models").fill("llama3.2-1b, brand-new")
    press(form.get_by_role("button", name="Add backend"))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Added: models.brand-new")
    backends.confirm("Add")
    expect(row(backends, "us-2")).to_contain_text("Healthy")
    expect(page.get_by_role("region", name="Configuration")).to_contain_text("backend.added us-2")
    press(row(backends, "us-2").get_by_role("button", name="Remove us-2"))
    expect(dialog).to_contain_text("Removed: models.brand-new")
    backends.confirm("Remove")
    expect(row(backends, "us-2")).to_be_hidden()


def test_a_wrong_value_is_shown_at_its_field(backends: PortalPage, console: Console) -> None:
    page = backends.page
    console.tolerate("422", "409")
    form = page.get_by_role("region", name="New backend")
    for label, value in (("Name", "us-2"), ("Region", "US"), ("URL", "no address"), ("Models", "m")):
        form.get_by_label(label).fill(value)
    press(form.get_by_role("button", name="Add backend"))
    expect(form.get_by_label("URL")).to_be_focused()
    expect(form.get_by_label("URL")).to_have_accessible_description(re.compile("is not an address"))
    form.get_by_label("URL").fill("http://127.0.0.1:9/v1")
    form.get_by_label("Name").fill("us-1")
    press(form.get_by_role("button", name="Add backend"))
    expect(page.get_by_text("Another backend has this name.")).to_be_visible()


def test_work_that_would_be_lost_is_named_before_a_removal(
    backends: PortalPage, key: str, stack_admin: StackAdmin
) -> None:
    page = backends.page
    stack_admin.hold("music")
    job = stack_admin.submit(key, {"kind": "generation", "model": "music", "prompt": "x"})
    press(row(backends, "us-1").get_by_role("button", name="Remove us-1"))
    expect(page.get_by_role("dialog")).to_contain_text("1 unfinished execution of music in US would fail")
    page.keyboard.press("Escape")
    stack_admin.release()
    backends.open(f"/jobs/{job}")
    expect(backends.state()).to_have_text(re.compile("Completed"))
