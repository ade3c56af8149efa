"""What a person does in the portal, and what a tester does behind it."""

from typing import Any, Self

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import PATIENCE_S

REGIONS = ("us", "eu", "asia")
LLAMA, QWEN = "llama3.2-1b", "qwen2.5-1.5b"


def matrix(*models: str, regions: tuple[str, ...] = ("US",), name: str = "a comparison") -> dict[str, object]:
    return {
        "kind": "matrix",
        "name": name,
        "questions": [{"id": "q1", "prompt": "Is the sky blue?"}],
        "models": list(models),
        "regions": list(regions),
        "failover": "pinned",
    }


class Backstage:
    """The stack from behind: users, simulated GPUs, jobs by HTTP."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self._http = httpx.Client(
            base_url=stack.credentials.runner_url, trust_env=False, timeout=PATIENCE_S, verify=NO_TLS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def knows(self, key: str) -> bool:
        """Whether the key opens anything."""
        return self._http.get("/api/v1/me", headers={"Authorization": f"Bearer {key}"}).status_code == 200

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
            httpx.request(method, address, json=body, trust_env=False, timeout=PATIENCE_S).raise_for_status()

    def hold(self, model: str) -> None:
        """Runs of this model do not end by themselves any more."""
        self.control("POST", "faults", {"kind": "hold", "model": model})

    def let_go(self) -> None:
        """What was held ends well, and nothing more is held."""
        self.control("POST", "release")

    def credit(self, key: str) -> int:
        return int(self._me(key)["credit"])

    def give(self, key: str, amount: int) -> None:
        """Credit for the key's user."""
        me = (
            self._http.get("/api/v1/me", headers={"Authorization": f"Bearer {key}"}).raise_for_status().json()
        )
        path = f"/admin/users/{me['user_id']}/credit"
        self._http.post(path, headers=self.stack.admin, json={"amount": amount}).raise_for_status()

    def pause(self, job_class: str) -> None:
        self._http.post(f"/admin/queues/{job_class}/pause", headers=self.stack.admin).raise_for_status()

    def resume(self, job_class: str) -> None:
        self._http.post(f"/admin/queues/{job_class}/resume", headers=self.stack.admin).raise_for_status()

    def jobs(self, key: str) -> list[dict[str, Any]]:
        answer = self._http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {key}"})
        return list(answer.raise_for_status().json()["jobs"])

    def _me(self, key: str) -> Any:
        answer = self._http.get("/api/v1/me", headers={"Authorization": f"Bearer {key}"})
        return answer.raise_for_status().json()

    def reset(self) -> None:
        self.control("POST", "reset")


class Desk:
    """The portal as a signed-in person uses it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address

    def sign_in(self, key: str, *, remember: bool = False) -> None:
        self.page.goto(self.address)
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_label("Remember it").set_checked(remember)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.heading("Jobs")).to_be_visible()

    def go(self, place: str) -> None:
        self.page.get_by_role("navigation", name="Main").get_by_role("link", name=place).click()

    def open(self, place: str) -> None:
        self.page.goto(f"{self.address}#{place}")

    def heading(self, name: str) -> Locator:
        return self.page.get_by_role("heading", name=name, level=1)

    def state(self) -> Locator:
        """The job's own state, beside its name."""
        return self.page.locator(".page-head .badge")

    def fact(self, name: str) -> Locator:
        """The value beside a name, of those under the progress bar."""
        return self.page.locator(".facts div", has_text=name).locator("dd")

    def cell(self, question: str, model: str, region: str) -> Locator:
        return self.page.locator(f'button[title="{question} · {model} · {region}"]')

    def answer(self, model: str, region: str) -> Locator:
        return self.page.get_by_role("article", name=f"{model}, {region}")

    def confirm(self, action: str) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name=action).click()
