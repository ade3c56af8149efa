"""The portal as a signed-in user operates it."""

from playwright.sync_api import Locator, Page, expect


class PortalPage:
    """Page object of the portal."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address

    def sign_in(self, key: str, *, remember: bool = False) -> None:
        self.page.goto(self.address)
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_label("Remember the key").set_checked(remember)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.heading("Jobs")).to_be_visible()

    def go(self, name: str) -> None:
        self.page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()

    def open(self, path: str) -> None:
        self.page.goto(f"{self.address}#{path}")

    def heading(self, name: str) -> Locator:
        return self.page.get_by_role("heading", name=name, level=1)

    def state(self) -> Locator:
        """The badge with the state of the job."""
        return self.page.locator(".page-head .badge")

    def fact(self, name: str) -> Locator:
        """The value of a fact below the progress bar."""
        return self.page.locator(".facts div", has_text=name).locator("dd")

    def cell(self, question: str, model: str, region: str) -> Locator:
        return self.page.locator(f'button[title="{question} · {model} · {region}"]')

    def answer(self, model: str, region: str) -> Locator:
        return self.page.get_by_role("article", name=f"{model}, {region}")

    def confirm(self, action: str) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name=action).click()
