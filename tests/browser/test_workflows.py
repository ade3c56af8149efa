"""The main workflows of the portal on the whole system."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import Route, WebSocketRoute, expect
from standardwebhooks.webhooks import Webhook

from beacon_gpusim.core.media import MediaKind, media_of
from beacon_gpusim.core.outputs import Prompt
from tests.browser.conftest import Console
from tests.browser.portal_page import PortalPage
from tests.browser.stack_admin import LLAMA, QWEN, StackAdmin, matrix
from tests.browser.test_accessibility import check_access
from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack

FAILING = {"kind": "error", "status": 503}


def test_submit_a_matrix_and_watch_it_to_the_end(portal: PortalPage, key: str) -> None:
    page = portal.page
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("websocket", lambda socket: requested.append(socket.url))
    portal.sign_in(key)
    portal.go("Submit")
    page.get_by_label("Name", exact=True).first.fill("two by two by three")
    page.get_by_label("Question", exact=True).fill("Is the sky blue?")
    page.get_by_role("button", name="Add a question").click()
    page.get_by_label("Question", exact=True).nth(1).fill("Is the sea <b>blue</b>?")
    page.get_by_label(LLAMA).check()
    page.get_by_label(QWEN).check()
    expect(page.get_by_role("complementary")).to_contain_text(re.compile(r"12 \(2 . 2 . 3\)"))
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(portal.heading("two by two by three")).to_be_visible()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    for question in ("q1", "q2"):
        for region in ("US", "EU", "ASIA"):
            expect(portal.cell(question, LLAMA, region)).to_contain_text("Completed")
            expect(portal.cell(question, QWEN, region)).to_contain_text("Completed")
    expect(portal.answer(LLAMA, "EU")).to_contain_text(f"{LLAMA} in EU")
    page.get_by_role("button", name="q2", exact=True).click()
    expect(portal.answer(QWEN, "ASIA")).to_contain_text("Is the sea <b>blue</b>?")
    portal.go("Jobs")
    expect(page.get_by_role("row", name="two by two by three")).to_contain_text("Completed")
    assert [address for address in requested if "/ws/job_" in address]
    assert not [address for address in requested if key in address]


@pytest.mark.parametrize("streams", [True, False])
def test_a_job_is_followed_where_websockets_are_blocked(
    portal: PortalPage, key: str, stack_admin: StackAdmin, console: Console, streams: bool
) -> None:
    """A proxy blocks WebSockets, and in one case event streams too."""
    page = portal.page
    portal.sign_in(key)
    page.route_web_socket(re.compile("/ws/"), lambda socket: socket.close(code=1011))
    if not streams:
        console.tolerate("501")
        page.route("**/events", lambda route: route.fulfill(status=501))
    stack_admin.hold(LLAMA)
    with page.expect_request("**/events"):
        portal.open(f"/jobs/{stack_admin.submit(key, matrix(LLAMA))}")
    expect(portal.cell("q1", LLAMA, "US")).to_contain_text("Running")
    stack_admin.release()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    expect(portal.answer(LLAMA, "US")).to_contain_text(f"{LLAMA} in US")


def test_a_running_execution_shows_progress_and_preview(
    portal: PortalPage, key: str, stack_admin: StackAdmin
) -> None:
    """The event of a backend's progress arrives over the WebSocket."""
    page = portal.page
    portal.sign_in(key)
    sockets: list[WebSocketRoute] = []

    def connect(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    page.route_web_socket(re.compile("/ws/"), connect)
    stack_admin.hold(LLAMA)
    job_id = stack_admin.submit(key, matrix(LLAMA))
    portal.open(f"/jobs/{job_id}")
    expect(portal.cell("q1", LLAMA, "US")).to_contain_text("Running")
    image = b64encode(b"".join(media_of(MediaKind.IMAGE, Prompt(LLAMA, "US", "a cat")).parts)).decode()
    data = {
        "execution_id": f"{job_id.replace('job_', 'exe_')}.0.0",
        "item": "q1",
        "model": LLAMA,
        "region": "US",
        "attempt": 1,
        "percent": 45,
        "message": "step 9 of 20",
        "preview": f"data:image/png;base64,{image}",
    }
    event = {"seq": 1_000, "type": "EXECUTION_PROGRESS", "job_id": job_id, "at": "2026-01-01T00:00:00Z"}
    sockets[-1].send(json.dumps(event | {"data": data}))
    card = portal.answer(LLAMA, "US")
    expect(card.get_by_role("progressbar", name="Progress of the run")).to_have_attribute("value", "45")
    expect(card).to_contain_text("45 % · step 9 of 20")
    expect(portal.cell("q1", LLAMA, "US")).to_contain_text("45 %")
    overall = page.get_by_role("progressbar", name="Progress", exact=True)
    expect(overall).to_have_attribute("aria-valuenow", "45")
    preview = card.get_by_role("img", name="Preview")
    expect(preview).to_be_visible()
    assert preview.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0, (
        "the policy allows it"
    )
    check_access(page)
    stack_admin.release()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    expect(card.get_by_role("progressbar")).to_be_hidden()


def test_a_pipeline_shows_its_steps_one_after_another(portal: PortalPage, key: str) -> None:
    page = portal.page
    portal.sign_in(key)
    portal.go("Submit")
    page.get_by_role("radio", name="Pipeline").check()
    page.get_by_label("Feature").select_option("text_only")
    page.get_by_label("Prompt", exact=True).fill("A futuristic city")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    expect(portal.answer("prompt_enhancer", "US")).to_contain_text("A futuristic city, in fine detail")
    expect(portal.answer("fast_chat_llm", "US")).to_contain_text("Completed")


def test_retry_a_failed_cell(portal: PortalPage, key: str, stack_admin: StackAdmin) -> None:
    stack_admin.control("POST", "faults", FAILING | {"model": QWEN}, regions=("us",))
    job = stack_admin.submit(key, matrix(LLAMA, QWEN))
    portal.sign_in(key)
    portal.open(f"/jobs/{job}")
    expect(portal.state()).to_have_text(re.compile("Partial"))
    expect(portal.cell("q1", LLAMA, "US")).to_contain_text("Completed")
    expect(portal.cell("q1", QWEN, "US")).to_contain_text("Failed")

    stack_admin.control("DELETE", "faults")
    portal.cell("q1", QWEN, "US").click()
    portal.answer(QWEN, "US").get_by_role("button", name="Retry").click()
    expect(portal.cell("q1", QWEN, "US")).to_contain_text("Completed")
    expect(portal.state()).to_have_text(re.compile("Completed"))
    expect(portal.answer(QWEN, "US")).to_contain_text(f"{QWEN} in US")


def test_cancel_is_confirmed_and_then_ends_the_job(
    portal: PortalPage, key: str, stack_admin: StackAdmin
) -> None:
    stack_admin.hold(LLAMA)
    job = stack_admin.submit(key, matrix(LLAMA, regions=("US", "EU")))
    portal.sign_in(key)
    portal.open(f"/jobs/{job}")
    expect(portal.cell("q1", LLAMA, "EU")).to_contain_text("Running")

    portal.page.get_by_role("button", name="Cancel", exact=True).click()
    portal.confirm("Go back")
    expect(portal.state()).to_have_text(re.compile("Running"))
    portal.page.get_by_role("button", name="Cancel", exact=True).click()
    portal.confirm("Cancel the job")
    expect(portal.state()).to_have_text(re.compile("Cancelled"))
    expect(portal.cell("q1", LLAMA, "US")).to_contain_text("Cancelled")
    expect(portal.page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()


def test_paying_to_skip_the_queue(portal: PortalPage, key: str, stack_admin: StackAdmin) -> None:
    """The price shown is the price paid; the job becomes the first."""
    page = portal.page
    stack_admin.add_credit(key, 10)
    stack_admin.pause("high")
    try:
        stack_admin.submit(stack_admin.new_user("an earlier user"), matrix(LLAMA))
        portal.sign_in(key)
        portal.go("Submit")
        page.get_by_role("radio", name="Generation").check()
        page.get_by_label("Model").select_option("music")
        page.get_by_label("Duration").fill("45")
        page.get_by_label("Prompt", exact=True).fill("A slow waltz")
        expect(page.get_by_role("complementary")).to_contain_text("To skip the queue5 credits")
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(portal.fact("Position")).to_have_text("2")

        page.get_by_role("button", name="Skip the queue (5 credits)").click()
        expect(page.get_by_role("dialog")).to_contain_text("You have 10 credits")
        portal.confirm("Pay 5 credits")
        expect(portal.fact("Position")).to_have_text("1")
        expect(portal.fact("Paid to skip")).to_have_text("5 credits")
        expect(page.get_by_role("button", name="Skip the queue")).to_be_hidden()
        assert stack_admin.credit(key) == 5
    finally:
        stack_admin.resume("high")
    expect(portal.state()).to_have_text(re.compile("Completed"))


def test_skipping_the_queue_needs_credit(
    portal: PortalPage, key: str, stack_admin: StackAdmin, console: Console
) -> None:
    console.tolerate("402")
    stack_admin.pause("high")
    try:
        portal.sign_in(key)
        portal.open(f"/jobs/{stack_admin.submit(key, matrix(LLAMA))}")
        portal.page.get_by_role("button", name="Skip the queue").click()
        portal.confirm("Pay")
        expect(portal.page.get_by_role("status").filter(has_text="your credit is 0")).to_be_visible()
        expect(portal.state()).to_have_text(re.compile("Queued"))
    finally:
        stack_admin.resume("high")


def test_a_dead_letter_is_requeued(
    portal: PortalPage, key: str, stack_admin: StackAdmin, stack: RunningStack
) -> None:
    page = portal.page
    stack_admin.control("POST", "faults", FAILING)
    job = stack_admin.submit(key, matrix(LLAMA, name="a dead one"))
    portal.sign_in(stack.credentials.admin_key)
    portal.go("Admin")
    page.get_by_role("link", name="Dead letters").click()
    row = page.get_by_role("row", name=job)
    expect(row).to_contain_text("a dead one")

    stack_admin.control("DELETE", "faults")
    page.get_by_label("Search").fill("a dead one")
    expect(page.get_by_role("button", name="Purge 1", exact=True)).to_be_visible()
    page.get_by_role("button", name="Requeue 1", exact=True).click()
    expect(page.get_by_text("1 dead letter requeued.")).to_be_visible()
    expect(row).to_be_hidden()
    portal.open(f"/jobs/{job}")
    expect(portal.state()).to_have_text(re.compile("Completed"))


def test_a_purge_is_confirmed_and_leaves_the_job_readable(
    portal: PortalPage, key: str, stack_admin: StackAdmin, stack: RunningStack
) -> None:
    page = portal.page
    stack_admin.control("POST", "faults", FAILING)
    job = stack_admin.submit(key, matrix(LLAMA, name="to be purged"))
    portal.sign_in(stack.credentials.admin_key)
    portal.open("/admin/dead")
    row = page.get_by_role("row", name=job)
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Purge 1").click()
    portal.confirm("Purge 1")
    expect(page.get_by_text("1 dead letter purged.")).to_be_visible()
    expect(row).to_be_hidden()
    portal.open(f"/jobs/{job}")
    expect(portal.heading("to be purged")).to_be_visible()
    expect(portal.state()).to_have_text(re.compile("Failed"))


def test_form_errors_are_shown_at_their_fields(portal: PortalPage, key: str) -> None:
    page = portal.page
    portal.sign_in(key)
    portal.go("Submit")
    page.get_by_role("button", name="Submit", exact=True).click()
    question = page.get_by_label("Question", exact=True)
    expect(question).to_be_focused()
    expect(question).to_have_accessible_description("Enter a question.")
    expect(page.get_by_text("Choose at least one model.")).to_be_visible()


def test_limits_are_shown_and_explained(
    portal: PortalPage, stack_admin: StackAdmin, console: Console
) -> None:
    page = portal.page
    key = stack_admin.new_user("poor", tier="free")
    for _ in range(2):
        stack_admin.submit(key, matrix(LLAMA))
    portal.sign_in(key)
    portal.go("Submit")
    estimate = page.get_by_role("complementary")
    expect(estimate).to_contain_text("Jobs left this hour1 of 3")
    expect(estimate).to_contain_text("Queue places left2 of 2")
    stack_admin.submit(key, matrix(LLAMA))
    page.get_by_label("Question", exact=True).fill("One more?")
    page.get_by_label(LLAMA).check()
    console.tolerate("429")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("Try again in")).to_be_visible()
    expect(estimate).to_contain_text("Jobs left this hour0 of 3")
    expect(page.get_by_label("Question", exact=True)).to_have_value("One more?")
    page.get_by_role("button", name="poor").click()
    page.get_by_role("link", name="Limits").click()
    expect(page.get_by_role("row", name="Jobs per hour").get_by_role("cell")).to_have_text(
        ["3", "3", "0", re.compile("min|h")]
    )
    expect(page.get_by_role("row", name="Open event streams").get_by_role("cell").nth(1)).to_have_text("8")
    expect(page.get_by_role("definition").filter(has_text="100")).to_be_visible()


def test_administration_needs_an_administrator(portal: PortalPage, key: str, stack: RunningStack) -> None:
    portal.sign_in(key)
    expect(portal.page.get_by_role("link", name="Admin")).to_be_hidden()
    portal.open("/admin")
    expect(portal.page.get_by_text("needs an administrator key")).to_be_visible()


def test_an_unknown_key_is_rejected_and_signing_out_is_final(
    portal: PortalPage, key: str, console: Console
) -> None:
    page = portal.page
    console.tolerate("401")
    page.goto(portal.address)
    page.get_by_label("API key").fill("unknown")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("API key")).to_have_accessible_description(re.compile("unknown"))
    portal.sign_in(key)
    page.get_by_role("button", name="test_an_unknown").click()
    page.get_by_role("button", name="Sign out").click()
    expect(portal.heading("Sign in")).to_be_visible()
    page.reload()
    expect(portal.heading("Sign in")).to_be_visible()


def test_regions_show_the_runs_of_each_backend(portal: PortalPage, key: str, stack_admin: StackAdmin) -> None:
    page = portal.page
    stack_admin.hold(LLAMA)
    job = stack_admin.submit(key, matrix(LLAMA, regions=("EU",)))
    portal.sign_in(key)
    portal.go("Regions")
    europe = page.get_by_role("region", name="EU")
    expect(europe).to_contain_text("1 of 4 slots")
    expect(europe).to_contain_text("Healthy")
    expect(europe).to_contain_text(LLAMA)
    expect(page.get_by_role("region", name="Shared limits")).to_contain_text("modal")
    portal.open(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    portal.confirm("Cancel the job")
    expect(portal.state()).to_have_text(re.compile("Cancelled"))


def test_a_new_user_gets_a_key_and_credit_and_signs_in(portal: PortalPage, stack: RunningStack) -> None:
    page = portal.page
    portal.sign_in(stack.credentials.admin_key)
    portal.open("/admin/users")
    page.get_by_label("Name", exact=True).fill("grace")
    page.get_by_label("Tier", exact=True).select_option("premium")
    page.get_by_role("button", name="Create user").click()
    key = page.get_by_role("dialog").get_by_label("Key").input_value()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    row = page.get_by_role("row", name="grace")
    row.get_by_label("Credit for grace").fill("25")
    row.get_by_role("button", name="Add").click()
    expect(row.get_by_role("cell", name="25", exact=True)).to_be_visible()

    page.get_by_role("button", name="admin", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    portal.sign_in(key)
    page.get_by_role("button", name="grace").click()
    expect(page.get_by_text("Premium tier")).to_be_visible()
    expect(page.get_by_text("25 credits")).to_be_visible()


def test_a_rotated_key_is_shown_once_and_replaces_the_old(
    portal: PortalPage, stack_admin: StackAdmin, key: str, stack: RunningStack
) -> None:
    page = portal.page
    portal.sign_in(stack.credentials.admin_key)
    portal.open("/admin/users")
    page.get_by_role("button", name="Keys of test_a_rotated").click()
    page.get_by_role("button", name=f"Rotate {key[:6]}").click()
    shown = page.get_by_role("dialog", name="New key for")
    fresh = shown.get_by_label("Key").input_value()
    shown.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog").get_by_text("revoked")).to_be_visible()
    assert stack_admin.accepts_key(fresh)
    assert not stack_admin.accepts_key(key)


def test_the_audit_log_shows_the_filters_of_an_operation(
    portal: PortalPage, stack_admin: StackAdmin, key: str, stack: RunningStack
) -> None:
    page = portal.page
    stack_admin.bulk(key, "cancel", {"status": ["queued", "processing"], "kind": "matrix"})
    portal.sign_in(stack.credentials.admin_key)
    portal.open("/admin/audit")
    row = page.get_by_role("row", name="Jobs bulk started").first
    expect(row).to_contain_text("action: cancel")
    expect(row).to_contain_text("filter: status queued, processing, kind matrix")


def test_usage_has_a_chart_sums_and_a_table(portal: PortalPage, key: str, stack_admin: StackAdmin) -> None:
    page = portal.page
    portal.sign_in(key)
    portal.open(f"/jobs/{stack_admin.submit(key, matrix(LLAMA, QWEN))}")
    expect(portal.state()).to_have_text(re.compile("Completed"))
    portal.open("/usage")
    expect(page.get_by_role("row", name=LLAMA)).to_be_visible()
    expect(page.get_by_role("list", name="GPU seconds per day").get_by_role("listitem")).to_have_count(1)
    expect(portal.fact("Runs")).to_have_text("2")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download CSV").click()
    assert saved.value.suggested_filename == "usage.csv"

    held: list[Route] = []
    page.route(re.compile("group_by=region"), lambda route: held.append(route))  # noqa: PLW0108 - playwright marks it
    page.get_by_label("Group by").select_option("Region")
    page.get_by_label("Group by").select_option("Tag")
    expect(page.get_by_role("row", name="(none)")).to_be_visible()
    with page.expect_response(re.compile("group_by=region")) as late:
        held[0].continue_()
    late.value.finished()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    expect(page.get_by_role("row", name="(none)")).to_be_visible()
    expect(page.get_by_role("row", name="US")).to_have_count(0)


def test_a_class_is_paused_and_resumed(portal: PortalPage, stack: RunningStack) -> None:
    page = portal.page
    portal.sign_in(stack.credentials.admin_key)
    portal.go("Admin")
    row = page.get_by_role("row", name="Low")
    row.get_by_role("button", name="Pause").click()
    portal.confirm("Pause")
    expect(row).to_contain_text("Paused")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("Active")


def test_a_webhook_is_created_tested_and_replayed(portal: PortalPage, stack_admin: StackAdmin) -> None:
    page = portal.page
    with receiver() as (url, requests):
        portal.sign_in(stack_admin.new_user("with webhooks"))
        page.get_by_role("button", name="with webhooks").click()
        page.get_by_role("link", name="Webhooks").click()
        page.get_by_label("URL").fill(url)
        page.get_by_role("button", name="Create webhook").click()
        secret = page.get_by_role("dialog").get_by_label("Secret").input_value()
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        page.get_by_role("link", name=url).click()
        page.get_by_role("button", name="Send a test").click()
        row = page.get_by_role("row", name="webhook.test")
        expect(row).to_contain_text("Delivered")
        expect(row).to_contain_text("204")
        check_access(page)
        row.get_by_role("button", name="Replay").click()
        expect(row.get_by_role("cell", name="2", exact=True)).to_be_visible()
        for headers, body in requests:
            assert Webhook(secret).verify(body, headers)["type"] == "webhook.test"
        assert len({headers["webhook-id"] for headers, _ in requests}) == 1
        page.get_by_role("button", name="Delete").click()
        portal.confirm("Delete webhook")
        expect(page.get_by_text("No webhooks yet.")).to_be_visible()


@contextmanager
def receiver() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """Its address, and the headers and bodies of the requests that it has accepted."""
    requests: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing: the test has the requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", requests
        finally:
            server.shutdown()
            serving.join()


def test_jobs_are_filtered_and_changed_together(
    portal: PortalPage, key: str, stack_admin: StackAdmin
) -> None:
    page = portal.page
    portal.sign_in(key)
    expect(page.get_by_label("Action on all matching jobs")).to_be_hidden()
    stack_admin.hold(LLAMA)
    for number in range(3):
        stack_admin.submit(key, matrix(LLAMA, name=f"nightly {number}") | {"tags": ["nightly"]})
    stack_admin.submit(key, matrix(QWEN, name="by hand") | {"not_before": "2040-01-01T00:00:00Z"})
    page.get_by_label("Tag").fill("nightly")
    page.get_by_label("Tag").press("Enter")
    expect(page.get_by_role("row", name="nightly 0")).to_be_visible()
    expect(page.get_by_role("row", name="by hand")).to_be_hidden()
    page.get_by_role("button", name="Apply to all matching").click()
    portal.confirm("Cancel all")
    expect(page.get_by_text("3 jobs cancelled, of 3 that matched.")).to_be_visible()
    expect(page.get_by_role("row", name="nightly 2")).to_contain_text("Cancelled")
    stack_admin.release()
    page.get_by_label("Tag").fill("")
    page.get_by_label("Name begins with").fill("BY")
    page.get_by_label("Name begins with").press("Enter")
    page.get_by_role("link", name="by hand").click()
    expect(portal.state()).to_have_text(re.compile("Scheduled"))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Results as CSV").click()
    assert saved.value.suggested_filename.endswith(".csv")
    page.get_by_role("button", name="Start now").click()
    expect(portal.state()).to_have_text(re.compile("Completed"))
    page.get_by_role("button", name="Delete").click()
    portal.confirm("Delete the job")
    expect(portal.heading("Jobs")).to_be_visible()
    expect(page.get_by_role("row", name="by hand")).to_have_count(0)


def test_answers_are_searched_and_compared(portal: PortalPage, key: str, stack_admin: StackAdmin) -> None:
    page = portal.page
    questions = [{"id": "sky", "prompt": "Is the sky blue?"}, {"id": "sea", "prompt": "How deep is the sea?"}]
    body = matrix(LLAMA, QWEN) | {"questions": questions, "regions": ["US", "EU"]}
    portal.sign_in(key)
    portal.open(f"/jobs/{stack_admin.submit(key, body)}")
    expect(portal.state()).to_have_text(re.compile("Completed"))

    page.get_by_label("Search in answers").fill("HOW DEEP")
    page.get_by_label("Search in answers").press("Enter")
    expect(page.get_by_text("4 answers to 1 of 2 questions")).to_be_visible()
    expect(portal.cell("sky", LLAMA, "US")).to_have_count(0)
    expect(portal.answer(LLAMA, "EU").locator("mark").first).to_have_text(
        re.compile("how deep", re.IGNORECASE)
    )
    page.get_by_label("Search in answers").fill("no answer has this")
    page.get_by_label("Search in answers").press("Enter")
    expect(page.get_by_text("0 answers to 0 of 2 questions")).to_be_visible()
    page.get_by_label("Search in answers").fill("")
    page.get_by_label("Search in answers").press("Enter")
    expect(portal.cell("sky", LLAMA, "US")).to_be_visible()

    page.get_by_label("Compare", exact=True).select_option(LLAMA)
    expect(page.get_by_label("Compare with").locator("option")).to_have_text([QWEN])
    expect(page.get_by_text("4 pairs of answers, 4 of them different")).to_be_visible()
    expect(portal.cell("sea", QWEN, "EU")).to_contain_text("differs")
    expect(portal.answer(LLAMA, "US").locator("mark.different").first).to_have_text(
        re.compile(LLAMA.split("-")[0].split(".")[0])
    )
    check_access(page)
    page.get_by_label("Compare", exact=True).select_option("EU")
    expect(page.get_by_label("Compare with").locator("option")).to_have_text(["US"])
    expect(portal.answer(QWEN, "EU").locator("mark.different").first).to_have_text("EU")
    expect(portal.answer(QWEN, "US").locator("mark.different").first).to_have_text("US")
    page.get_by_label("Compare", exact=True).select_option("Nothing")
    expect(page.locator("mark")).to_have_count(0)


def test_a_job_with_tags_times_and_a_webhook_is_submitted(
    portal: PortalPage, key: str, console: Console
) -> None:
    page = portal.page
    console.tolerate("422")
    portal.sign_in(key)
    portal.go("Submit")
    page.get_by_label("Question", exact=True).fill("Is the sky blue?")
    page.get_by_label(LLAMA).check()
    page.get_by_text("Tags, times and webhook").click()
    page.get_by_label("Tags").fill("nightly, blue sky")
    page.get_by_label("Metadata").fill("team=blue, run")
    page.get_by_label("Start at").fill("2040-01-01T10:00")
    page.get_by_label("Expires at").fill("2039-01-01T10:00")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("Enter pairs of key=value.")).to_be_visible()
    page.get_by_label("Metadata").fill("team=blue, run=7")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("must be after not_before")).to_be_visible()
    page.get_by_label("Expires at").fill("2041-01-01T10:00")
    page.get_by_label("Webhook URL").fill("http://127.0.0.1:9/job")
    check_access(page)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(portal.state()).to_have_text(re.compile("Scheduled"))
    expect(portal.fact("Tags")).to_have_text("nightly, blue sky, run=7, team=blue")

    portal.go("Jobs")
    page.get_by_label("Metadata").fill("run=7")
    page.get_by_label("From").fill("2030-01-01T00:00")
    page.get_by_label("From").press("Enter")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    page.get_by_label("From").fill("2020-01-01T00:00")
    page.get_by_label("From").press("Enter")
    page.get_by_role("link", name="Matrix job").click()
    page.get_by_role("button", name="Cancel", exact=True).click()
    portal.confirm("Cancel the job")
    expect(portal.state()).to_have_text(re.compile("Cancelled"))
