"""Server restarts, double clicks and several tabs."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Console
from tests.browser.portal_page import PortalPage
from tests.browser.stack_admin import LLAMA, QWEN, StackAdmin, matrix
from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack


def test_the_page_is_current_after_an_api_restart(
    portal: PortalPage, key: str, stack_admin: StackAdmin, stack: RunningStack, console: Console
) -> None:
    page = portal.page
    stack_admin.hold(LLAMA)
    job = stack_admin.submit(key, matrix(LLAMA, regions=("US", "EU", "ASIA")))
    portal.sign_in(key)
    portal.open(f"/jobs/{job}")
    expect(portal.cell("q1", LLAMA, "US")).to_contain_text("Running")

    console.tolerate("Failed to load resource", "net::ERR", "WebSocket connection to")
    stack.kill("runner")
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    stack.start("runner")
    expect(page.get_by_text("Reconnecting…")).to_be_hidden()
    stack_admin.release()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    expect(portal.cell("q1", LLAMA, "ASIA")).to_contain_text("Completed")


def test_a_draft_survives_a_restart_and_a_reload(
    portal: PortalPage, key: str, stack: RunningStack, console: Console
) -> None:
    page = portal.page
    portal.sign_in(key)
    portal.go("Submit")
    page.get_by_label("Question", exact=True).fill("An unfinished question")
    page.get_by_label(QWEN).check()
    console.tolerate("Failed to load resource", "net::ERR", "WebSocket connection to")
    stack.kill("runner")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("The server does not respond.")).to_be_visible()
    stack.start("runner")
    page.reload()
    expect(page.get_by_label("Question", exact=True)).to_have_value("An unfinished question")
    expect(page.get_by_label(QWEN)).to_be_checked()
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(portal.state()).to_have_text(re.compile("Completed"))


def test_a_double_click_submits_one_job(portal: PortalPage, key: str, stack_admin: StackAdmin) -> None:
    page = portal.page
    portal.sign_in(key)
    portal.go("Submit")
    page.get_by_label("Question", exact=True).fill("Once?")
    page.get_by_label(LLAMA).check()
    page.get_by_role("button", name="Submit", exact=True).dblclick()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    assert len(stack_admin.jobs(key)) == 1


def test_two_tabs_show_the_same_and_sign_out_together(
    portal: PortalPage, key: str, stack_admin: StackAdmin
) -> None:
    stack_admin.hold(LLAMA)
    job = stack_admin.submit(key, matrix(LLAMA))
    portal.sign_in(key, remember=True)
    portal.open(f"/jobs/{job}")
    other = PortalPage(portal.page.context.new_page(), portal.address)
    other.open(f"/jobs/{job}")
    expect(other.cell("q1", LLAMA, "US")).to_contain_text("Running")

    portal.page.get_by_role("button", name="Cancel", exact=True).click()
    portal.confirm("Cancel the job")
    expect(portal.state()).to_have_text(re.compile("Cancelled"))
    expect(other.state()).to_have_text(re.compile("Cancelled"))
    portal.page.get_by_role("button", name="test_two_tabs").click()
    portal.page.get_by_role("button", name="Sign out").click()
    expect(portal.heading("Sign in")).to_be_visible()
    expect(other.heading("Sign in")).to_be_visible()
