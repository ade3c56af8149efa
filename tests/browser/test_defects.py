"""Defects of the portal that were fixed; the portal is served without an API."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

ACCOUNT = {"user_id": "u1", "name": "Ada", "tier": "free", "scopes": ["user"], "credit": 0, "limits": {}}
EMPTY_LISTS: dict[str, object] = {
    "jobs": [],
    "next_cursor": None,
    "models": [],
    "features": [],
    "regions": [],
    "prices": [],
}
BLOCK_STORAGE = """
for (const name of ["localStorage", "sessionStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });
}
"""
COUNT_ABORT_LISTENERS = """
window.abortListeners = 0;
const add = AbortSignal.prototype.addEventListener;
AbortSignal.prototype.addEventListener = function (...args) {
  window.abortListeners += 1;
  return add.apply(this, args);
};
const remove = AbortSignal.prototype.removeEventListener;
AbortSignal.prototype.removeEventListener = function (...args) {
  window.abortListeners -= 1;
  return remove.apply(this, args);
};
"""
FOLLOW_20_CONNECTIONS = """
async (address) => {
  const { follow } = await import(address);
  const { signal } = new AbortController();
  const before = window.abortListeners;
  const setTimer = globalThis.setTimeout;
  globalThis.setTimeout = (work) => setTimer(work, 0);
  let left = 20;
  const source = async () => { left -= 1; };
  await follow([source], { after: 0, opened() {}, onEvent() {}, finished: () => left === 0, signal });
  return window.abortListeners - before;
}
"""


@pytest.fixture
def signed_in(page: Page, portal_alone: str) -> Callable[[], None]:
    """Signs in; every API request gets the same document, which has the fields of all."""
    page.route("**/api/v1/**", lambda route: route.fulfill(json=ACCOUNT | EMPTY_LISTS))

    def sign_in() -> None:
        page.goto(portal_alone)
        page.get_by_label("API key").fill("a-key-of-some-length")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()

    return sign_in


def test_an_address_that_cannot_be_decoded_is_not_found(
    page: Page, portal_alone: str, signed_in: Callable[[], None]
) -> None:
    signed_in()
    page.goto(f"{portal_alone}#/jobs/%")
    expect(page.get_by_role("heading", name="Not found", level=1)).to_be_visible()
    page.goto(f"{portal_alone}#/jobs")
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()


def test_the_portal_works_while_storage_is_blocked(
    page: Page, portal_alone: str, signed_in: Callable[[], None]
) -> None:
    page.add_init_script(BLOCK_STORAGE)
    signed_in()
    page.goto(f"{portal_alone}#/submit")
    page.get_by_label("Question", exact=True).fill("A draft in memory")
    page.goto(f"{portal_alone}#/jobs")
    page.goto(f"{portal_alone}#/submit")
    expect(page.get_by_label("Question", exact=True)).to_have_value("A draft in memory")


def test_waiting_leaves_no_abort_listeners(page: Page, portal_alone: str) -> None:
    page.add_init_script(COUNT_ABORT_LISTENERS)
    page.goto(portal_alone)
    main = page.locator('script[type="module"]').get_attribute("src") or ""
    assert page.evaluate(FOLLOW_20_CONNECTIONS, f"./{main.removesuffix('main.js')}follow.js") == 0
