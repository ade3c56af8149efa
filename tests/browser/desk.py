"""What a person does in the portal, and what a tester does behind it."""

from typing import Any, Self

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.fixtures.stack import RunningStack

REGIONS = ("us", "eu", "asia")


class Backstage:
    """The stack from behind: users, simulated GPUs, jobs by HTTP."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self._http = httpx.Client(base_url=stack.credentials.runner_url, trust_env=False, timeout=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def absent(self, *paths: str) -> list[str]:
        """Those of the paths that this server does not offer."""
        known = self._http.get("/openapi.json").raise_for_status().json()["paths"]
        return [path for path in paths if path not in known]

    def new_user(self, name: str, tier: str = "creator") -> str:
        """The key of a user of this test's own."""
        answer = self._http.post("/admin/users", headers=self.stack.admin, json={"name": name, "tier": tier})
        return str(answer.raise_for_status().json()["key"])

    def submit(self, key: str, body: dict[str, Any]) -> str:
        answer = self._http.post("/api/v1/jobs", headers={"Authorization": f"Bearer {key}"}, json=body)
        return str(answer.raise_for_status().json()["job_id"])

    def control(self, method: str, path: str, body: Any = None, regions: tuple[str, ...] = REGIONS) -> None:
        """Steers the simulated GPUs of these regions."""
        for region in regions:
            address = f"{self.stack.url(f'gpusim-{region}')}/control/{path}"
            httpx.request(method, address, json=body, trust_env=False).raise_for_status()

    def run_times(self, **seconds_of_model: float) -> None:
        self.control("PUT", "models", {name: {"run": seconds} for name, seconds in seconds_of_model.items()})

    def reset(self) -> None:
        self.control("POST", "reset")


class Desk:
    """The portal as a signed-in person uses it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self._address = address

    def sign_in(self, key: str) -> None:
        self.page.goto(self._address)
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.heading("Jobs")).to_be_visible()

    def go(self, place: str) -> None:
        self.page.get_by_role("navigation", name="Main").get_by_role("link", name=place).click()

    def open(self, place: str) -> None:
        self.page.goto(f"{self._address}#{place}")

    def heading(self, name: str) -> Locator:
        return self.page.get_by_role("heading", name=name, level=1)

    def state(self) -> Locator:
        """The job's own state, beside its name."""
        return self.page.locator(".page-head .badge")

    def cell(self, question: str, model: str, region: str) -> Locator:
        return self.page.locator(f'button[title="{question} · {model} · {region}"]')

    def answer(self, model: str, region: str) -> Locator:
        return self.page.get_by_role("article", name=f"{model}, {region}")

    def confirm(self, action: str) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name=action).click()
