"""What happens to people: servers restart, fingers tremble, tabs multiply."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Console
from tests.browser.desk import LLAMA, QWEN, Backstage, Desk, matrix
from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack


def test_the_page_shows_the_present_after_the_api_was_away(
    desk: Desk, key: str, backstage: Backstage, stack: RunningStack, console: Console
) -> None:
    page = desk.page
    backstage.hold(LLAMA)
    job = backstage.submit(key, matrix(LLAMA, regions=("US", "EU", "ASIA")))
    desk.sign_in(key)
    desk.open(f"/jobs/{job}")
    expect(desk.cell("q1", LLAMA, "US")).to_contain_text("Running")

    console.tolerate("Failed to load resource", "net::ERR", "WebSocket connection to")
    stack.kill("runner")
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    stack.start("runner")
    expect(page.get_by_text("Reconnecting…")).to_be_hidden()
    backstage.let_go()
    expect(desk.state()).to_have_text(re.compile("Completed"))
    expect(desk.cell("q1", LLAMA, "ASIA")).to_contain_text("Completed")


def test_what_is_half_written_survives_a_restart_and_a_reload(
    desk: Desk, key: str, stack: RunningStack, console: Console
) -> None:
    page = desk.page
    desk.sign_in(key)
    desk.go("Submit")
    page.get_by_label("Question", exact=True).fill("Half a thou")
    page.get_by_label(QWEN).check()
    console.tolerate("Failed to load resource", "net::ERR", "WebSocket connection to")
    stack.kill("runner")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("The server does not answer.")).to_be_visible()
    stack.start("runner")
    page.reload()
    expect(page.get_by_label("Question", exact=True)).to_have_value("Half a thou")
    expect(page.get_by_label(QWEN)).to_be_checked()
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(desk.state()).to_have_text(re.compile("Completed"))


def test_a_double_click_makes_one_job(desk: Desk, key: str, backstage: Backstage) -> None:
    page = desk.page
    desk.sign_in(key)
    desk.go("Submit")
    page.get_by_label("Question", exact=True).fill("Once?")
    page.get_by_label(LLAMA).check()
    page.get_by_role("button", name="Submit", exact=True).dblclick()
    expect(desk.state()).to_have_text(re.compile("Completed"))
    assert len(backstage.jobs(key)) == 1


def test_two_tabs_see_the_same_and_leave_together(desk: Desk, key: str, backstage: Backstage) -> None:
    backstage.hold(LLAMA)
    job = backstage.submit(key, matrix(LLAMA))
    desk.sign_in(key, remember=True)
    desk.open(f"/jobs/{job}")
    other = Desk(desk.page.context.new_page(), desk.address)
    other.open(f"/jobs/{job}")
    expect(other.cell("q1", LLAMA, "US")).to_contain_text("Running")

    desk.page.get_by_role("button", name="Cancel", exact=True).click()
    desk.confirm("Cancel the job")
    expect(desk.state()).to_have_text(re.compile("Cancelled"))
    expect(other.state()).to_have_text(re.compile("Cancelled"))
    desk.page.get_by_role("button", name="test_two_tabs").click()
    desk.page.get_by_role("button", name="Sign out").click()
    expect(desk.heading("Sign in")).to_be_visible()
    expect(other.heading("Sign in")).to_be_visible()
