"""What people come to the portal for, on the whole system."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Console
from tests.browser.desk import LLAMA, QWEN, Backstage, Desk, matrix
from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack

FAILING = {"kind": "error", "status": 503}


def test_submit_a_matrix_and_watch_it_to_the_end(desk: Desk, key: str) -> None:
    page = desk.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    desk.sign_in(key)
    desk.go("Submit")
    page.get_by_label("Name", exact=True).first.fill("two by two by three")
    page.get_by_label("Question", exact=True).fill("Is the sky blue?")
    page.get_by_role("button", name="Add a question").click()
    page.get_by_label("Question", exact=True).nth(1).fill("Is the sea <b>blue</b>?")
    page.get_by_label(LLAMA).check()
    page.get_by_label(QWEN).check()
    expect(page.get_by_role("complementary")).to_contain_text(re.compile(r"12 \(2 . 2 . 3\)"))
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(desk.heading("two by two by three")).to_be_visible()
    expect(desk.state()).to_have_text(re.compile("Completed"))
    for question in ("q1", "q2"):
        for region in ("US", "EU", "ASIA"):
            expect(desk.cell(question, LLAMA, region)).to_contain_text("Completed")
            expect(desk.cell(question, QWEN, region)).to_contain_text("Completed")
    expect(desk.answer(LLAMA, "EU")).to_contain_text(f"{LLAMA} in EU")
    page.get_by_role("button", name="q2", exact=True).click()
    expect(desk.answer(QWEN, "ASIA")).to_contain_text("Is the sea <b>blue</b>?")
    desk.go("Jobs")
    expect(page.get_by_role("row", name="two by two by three")).to_contain_text("Completed")
    assert [address for address in asked if "/ws/job_" in address]
    assert not [address for address in asked if key in address]


@pytest.mark.parametrize("streams", [True, False])
def test_without_sockets_the_page_follows_the_job_all_the_same(
    desk: Desk, key: str, backstage: Backstage, console: Console, streams: bool
) -> None:
    """Something on the way lets no WebSocket through, and perhaps no stream of events either."""
    page = desk.page
    desk.sign_in(key)
    page.route_web_socket(re.compile("/ws/"), lambda socket: socket.close(code=1011))
    if not streams:
        console.tolerate("501")
        page.route("**/events", lambda route: route.fulfill(status=501))
    backstage.hold(LLAMA)
    with page.expect_request("**/events"):
        desk.open(f"/jobs/{backstage.submit(key, matrix(LLAMA))}")
    expect(desk.cell("q1", LLAMA, "US")).to_contain_text("Running")
    backstage.let_go()
    expect(desk.state()).to_have_text(re.compile("Completed"))
    expect(desk.answer(LLAMA, "US")).to_contain_text(f"{LLAMA} in US")


def test_a_pipeline_shows_its_steps_one_after_another(desk: Desk, key: str) -> None:
    page = desk.page
    desk.sign_in(key)
    desk.go("Submit")
    page.get_by_label("Pipeline").check()
    page.get_by_label("Feature").select_option("text_only")
    page.get_by_label("Prompt").fill("A futuristic city")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(desk.state()).to_have_text(re.compile("Completed"))
    expect(desk.answer("prompt_enhancer", "US")).to_contain_text("A futuristic city, in fine detail")
    expect(desk.answer("fast_chat_llm", "US")).to_contain_text("Completed")


def test_retry_a_failed_cell(desk: Desk, key: str, backstage: Backstage) -> None:
    backstage.control("POST", "faults", FAILING | {"model": QWEN}, regions=("us",))
    job = backstage.submit(key, matrix(LLAMA, QWEN))
    desk.sign_in(key)
    desk.open(f"/jobs/{job}")
    expect(desk.state()).to_have_text(re.compile("Partial"))
    expect(desk.cell("q1", LLAMA, "US")).to_contain_text("Completed")
    expect(desk.cell("q1", QWEN, "US")).to_contain_text("Failed")

    backstage.control("DELETE", "faults")
    desk.cell("q1", QWEN, "US").click()
    desk.answer(QWEN, "US").get_by_role("button", name="Retry").click()
    expect(desk.cell("q1", QWEN, "US")).to_contain_text("Completed")
    expect(desk.state()).to_have_text(re.compile("Completed"))
    expect(desk.answer(QWEN, "US")).to_contain_text(f"{QWEN} in US")


def test_cancel_asks_first_and_then_stops_everything(desk: Desk, key: str, backstage: Backstage) -> None:
    backstage.hold(LLAMA)
    job = backstage.submit(key, matrix(LLAMA, regions=("US", "EU")))
    desk.sign_in(key)
    desk.open(f"/jobs/{job}")
    expect(desk.cell("q1", LLAMA, "EU")).to_contain_text("Running")

    desk.page.get_by_role("button", name="Cancel", exact=True).click()
    desk.confirm("Go back")
    expect(desk.state()).to_have_text(re.compile("Running"))
    desk.page.get_by_role("button", name="Cancel", exact=True).click()
    desk.confirm("Cancel the job")
    expect(desk.state()).to_have_text(re.compile("Cancelled"))
    expect(desk.cell("q1", LLAMA, "US")).to_contain_text("Cancelled")
    expect(desk.page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()


def test_paying_to_go_first(desk: Desk, key: str, backstage: Backstage) -> None:
    """The price that is shown before is the one that is paid; the place is the first."""
    page = desk.page
    backstage.give(key, 10)
    backstage.pause("high")
    try:
        backstage.submit(backstage.new_user("somebody before"), matrix(LLAMA))
        desk.sign_in(key)
        desk.go("Submit")
        page.get_by_label("Generation").check()
        page.get_by_label("Model").select_option("music")
        page.get_by_label("Seconds").fill("45")
        page.get_by_label("Prompt").fill("A slow waltz")
        expect(page.get_by_role("complementary")).to_contain_text("To go first5 credits")
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(desk.fact("Position")).to_have_text("2")

        page.get_by_role("button", name="Go first (5 credits)").click()
        expect(page.get_by_role("dialog")).to_contain_text("You have 10 credits")
        desk.confirm("Pay 5 credits")
        expect(desk.fact("Position")).to_have_text("1")
        expect(desk.fact("Paid to skip")).to_have_text("5 credits")
        expect(page.get_by_role("button", name="Go first")).to_be_hidden()
        assert backstage.credit(key) == 5
    finally:
        backstage.resume("high")
    expect(desk.state()).to_have_text(re.compile("Completed"))


def test_without_the_credit_nobody_goes_first(
    desk: Desk, key: str, backstage: Backstage, console: Console
) -> None:
    console.tolerate("402")
    backstage.pause("high")
    try:
        desk.sign_in(key)
        desk.open(f"/jobs/{backstage.submit(key, matrix(LLAMA))}")
        desk.page.get_by_role("button", name="Go first").click()
        desk.confirm("Pay")
        expect(desk.page.get_by_role("status").filter(has_text="you have 0")).to_be_visible()
        expect(desk.state()).to_have_text(re.compile("Queued"))
    finally:
        backstage.resume("high")


def test_a_dead_letter_goes_back_to_its_queue(
    desk: Desk, key: str, backstage: Backstage, stack: RunningStack
) -> None:
    page = desk.page
    backstage.control("POST", "faults", FAILING)
    job = backstage.submit(key, matrix(LLAMA, name="a dead one"))
    desk.sign_in(stack.credentials.admin_key)
    desk.go("Admin")
    page.get_by_role("link", name="Dead letters").click()
    row = page.get_by_role("row", name=job)
    expect(row).to_contain_text("a dead one")

    backstage.control("DELETE", "faults")
    page.get_by_label("Search").fill("a dead one")
    expect(page.get_by_role("button", name="Purge 1", exact=True)).to_be_visible()
    page.get_by_role("button", name="Requeue 1", exact=True).click()
    expect(page.get_by_text("1 dead letter requeued.")).to_be_visible()
    expect(row).to_be_hidden()
    desk.open(f"/jobs/{job}")
    expect(desk.state()).to_have_text(re.compile("Completed"))


def test_a_purge_is_confirmed_and_leaves_the_job_readable(
    desk: Desk, key: str, backstage: Backstage, stack: RunningStack
) -> None:
    page = desk.page
    backstage.control("POST", "faults", FAILING)
    job = backstage.submit(key, matrix(LLAMA, name="to be purged"))
    desk.sign_in(stack.credentials.admin_key)
    desk.open("/admin/dead")
    row = page.get_by_role("row", name=job)
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Purge 1").click()
    desk.confirm("Purge 1")
    expect(page.get_by_text("1 dead letter purged.")).to_be_visible()
    expect(row).to_be_hidden()
    desk.open(f"/jobs/{job}")
    expect(desk.heading("to be purged")).to_be_visible()
    expect(desk.state()).to_have_text(re.compile("Failed"))


def test_a_refused_form_says_what_is_wrong_where_it_is_wrong(desk: Desk, key: str) -> None:
    page = desk.page
    desk.sign_in(key)
    desk.go("Submit")
    page.get_by_role("button", name="Submit", exact=True).click()
    question = page.get_by_label("Question", exact=True)
    expect(question).to_be_focused()
    expect(question).to_have_accessible_description("Write the question.")
    expect(page.get_by_text("Choose at least one model.")).to_be_visible()


def test_limits_are_shown_before_and_explained_after(
    desk: Desk, backstage: Backstage, console: Console
) -> None:
    page = desk.page
    key = backstage.new_user("poor", tier="free")
    for _ in range(2):
        backstage.submit(key, matrix(LLAMA))
    desk.sign_in(key)
    desk.go("Submit")
    forecast = page.get_by_role("complementary")
    expect(forecast).to_contain_text("Left this hour1 of 3")
    expect(forecast).to_contain_text("Jobs you may still queue2 of 2")
    backstage.submit(key, matrix(LLAMA))
    page.get_by_label("Question", exact=True).fill("One more?")
    page.get_by_label(LLAMA).check()
    console.tolerate("429")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("Try again in")).to_be_visible()
    expect(forecast).to_contain_text("Left this hour0 of 3")
    expect(page.get_by_label("Question", exact=True)).to_have_value("One more?")


def test_administration_needs_an_administrator(desk: Desk, key: str, stack: RunningStack) -> None:
    desk.sign_in(key)
    expect(desk.page.get_by_role("link", name="Admin")).to_be_hidden()
    desk.open("/admin")
    expect(desk.page.get_by_text("needs an administrator's key")).to_be_visible()


def test_an_unknown_key_is_refused_and_a_session_ends_for_good(
    desk: Desk, key: str, console: Console
) -> None:
    page = desk.page
    console.tolerate("401")
    page.goto(desk.address)
    page.get_by_label("API key").fill("nobody's")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("API key")).to_have_accessible_description(re.compile("not known"))
    desk.sign_in(key)
    page.get_by_role("button", name="test_an_unknown").click()
    page.get_by_role("button", name="Sign out").click()
    expect(desk.heading("Sign in")).to_be_visible()
    page.reload()
    expect(desk.heading("Sign in")).to_be_visible()


def test_regions_show_what_runs_where(desk: Desk, key: str, backstage: Backstage) -> None:
    page = desk.page
    backstage.hold(LLAMA)
    job = backstage.submit(key, matrix(LLAMA, regions=("EU",)))
    desk.sign_in(key)
    desk.go("Regions")
    europe = page.get_by_role("region", name="EU")
    expect(europe).to_contain_text("1 of 4 slots")
    expect(europe).to_contain_text("Healthy")
    expect(europe).to_contain_text(LLAMA)
    expect(page.get_by_role("region", name="Shared caps")).to_contain_text("modal")
    desk.open(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    desk.confirm("Cancel the job")
    expect(desk.state()).to_have_text(re.compile("Cancelled"))


def test_a_new_user_gets_a_key_and_credit_and_can_come_in(desk: Desk, stack: RunningStack) -> None:
    page = desk.page
    desk.sign_in(stack.credentials.admin_key)
    desk.open("/admin/users")
    page.get_by_label("Name", exact=True).fill("grace")
    page.get_by_label("Tier", exact=True).select_option("premium")
    page.get_by_role("button", name="Make a user").click()
    key = page.get_by_role("dialog").get_by_label("Key").input_value()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    row = page.get_by_role("row", name="grace")
    row.get_by_label("Credit for grace").fill("25")
    row.get_by_role("button", name="Give").click()
    expect(row.get_by_role("cell", name="25", exact=True)).to_be_visible()

    page.get_by_role("button", name="admin", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    desk.sign_in(key)
    page.get_by_role("button", name="grace").click()
    expect(page.get_by_text("Premium tier")).to_be_visible()
    expect(page.get_by_text("25 credits")).to_be_visible()


def test_a_rotated_key_is_shown_once_and_the_old_one_stops(
    desk: Desk, backstage: Backstage, key: str, stack: RunningStack
) -> None:
    page = desk.page
    desk.sign_in(stack.credentials.admin_key)
    desk.open("/admin/users")
    page.get_by_role("button", name="Keys of test_a_rotated").click()
    page.get_by_role("button", name=f"Rotate {key[:6]}").click()
    shown = page.get_by_role("dialog", name="A key for")
    fresh = shown.get_by_label("Key").input_value()
    shown.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog").get_by_text("revoked")).to_be_visible()
    assert backstage.knows(fresh)
    assert not backstage.knows(key)


def test_a_class_is_paused_and_resumed(desk: Desk, stack: RunningStack) -> None:
    page = desk.page
    desk.sign_in(stack.credentials.admin_key)
    desk.go("Admin")
    row = page.get_by_role("row", name="Low")
    row.get_by_role("button", name="Pause").click()
    desk.confirm("Pause")
    expect(row).to_contain_text("Paused")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("Serving")
