"""Chromium with a fresh profile for each test; a message in its console fails the test."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from beacon_portal import portal_app
from infra.screenshots import CHROMIUM_FLAGS
from tests.browser.portal_page import PortalPage
from tests.browser.stack_admin import StackAdmin
from tests.fixtures.stack import RunningStack, changed_config, running_stack
from tests.fixtures.waiting import WAIT_TIMEOUT_S

PATIENCE_MS = WAIT_TIMEOUT_S * 1000
expect.set_options(timeout=PATIENCE_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker("browser")


# Failures are final soon, and jobs of a killed worker are retried soon.
SHORT_DELAYS = {
    "job_retries = 3\njob_retry_delays_s = [60, 120, 180]": "job_retries = 1\njob_retry_delays_s = [0.1]",
    "attempts = 3": "attempts = 1",
    "breaker_failures = 5": "breaker_failures = 1000",
    "lease_s = 10\nheartbeat_s = 2.5": "lease_s = 4\nheartbeat_s = 1",
}
# A model whose form is made from its schema.
INPUT_SCHEMA = """\
[models.image_gen]
input_schema = { type = "object", required = ["prompt"], properties = { \
prompt = { type = "string" }, \
steps = { type = "integer", minimum = 1, maximum = 50, default = 20 }, \
style = { enum = ["photo", "drawing"], description = "How it looks" }, \
tiled = { type = "boolean" }, \
photo = { type = "object", properties = { file = { type = "string" } }, contentMediaType = "image/*" } } }
"""


@pytest.fixture(scope="module")
def stack(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """The whole system with short delays; not started where Chromium is missing."""
    changes = {**SHORT_DELAYS, "[models.image_gen]\n": INPUT_SCHEMA}
    config = changed_config(tmp_path_factory.mktemp("config"), changes)
    with running_stack(BEACON_CONFIG=str(config)) as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium. Its absence is a failure in CI only."""
    found = shutil.which("chromium")
    if found is None:
        message = "Chromium is not installed (Debian: apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


# Not session-scoped: while the synchronous Playwright is open, no other test can run an event loop.
@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


SOFTWARE_RENDERING = "GPU stall due to ReadPixels"


class Console:
    """The errors and warnings that a page logged."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self._tolerated: tuple[str, ...] = (SOFTWARE_RENDERING,)

    def watch(self, page: Page) -> None:
        page.on("console", self._record)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def tolerate(self, *parts: str) -> None:
        """Ignore messages that contain one of the texts: Chromium logs every failed request."""
        self._tolerated += parts

    def _record(self, message: ConsoleMessage) -> None:
        text = f"{message.text} ({message.location.get('url')})"
        if message.type in ("error", "warning") and not any(part in text for part in self._tolerated):
            self.errors.append(text)


@pytest.fixture
def console() -> Iterator[Console]:
    recorder = Console()
    yield recorder
    assert recorder.errors == []


@pytest.fixture
def page(browser: Browser, console: Console) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    console.watch(opened)
    yield opened
    context.close()


@pytest.fixture
def stack_admin(stack: RunningStack) -> Iterator[StackAdmin]:
    with StackAdmin(stack) as admin:
        admin.reset()
        yield admin
        admin.reset()


@pytest.fixture
def portal(page: Page, stack: RunningStack) -> PortalPage:
    return PortalPage(page, stack.credentials.portal_url)


@pytest.fixture
def key(stack_admin: StackAdmin, request: pytest.FixtureRequest) -> str:
    return stack_admin.new_user(request.node.name)


@pytest.fixture(scope="module")
def portal_alone() -> Iterator[str]:
    """The address of the portal without an API behind it."""
    server = uvicorn.Server(uvicorn.Config(portal_app(), port=0, log_level="warning", lifespan="off"))
    with _serving(server):
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def _serving(server: uvicorn.Server) -> Iterator[None]:
    thread = threading.Thread(target=server.run, name="portal")
    thread.start()
    try:
        started = threading.Event()
        while not server.started and thread.is_alive():
            started.wait(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join()
