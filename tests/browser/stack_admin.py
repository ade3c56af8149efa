"""Administration of the stack under test: users, simulated GPUs, jobs over HTTP."""

from typing import Any, Self

import httpx

from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import WAIT_TIMEOUT_S

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


class StackAdmin:
    """Users, simulated GPUs and jobs of a running stack, over HTTP."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self._http = httpx.Client(
            base_url=stack.credentials.runner_url, trust_env=False, timeout=WAIT_TIMEOUT_S, verify=NO_TLS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def accepts_key(self, key: str) -> bool:
        """Whether the API accepts the key."""
        return self._http.get("/api/v1/me", headers={"Authorization": f"Bearer {key}"}).status_code == 200

    def new_user(self, name: str, tier: str = "creator") -> str:
        """Create a user and return the key."""
        answer = self._http.post("/admin/users", headers=self.stack.admin, json={"name": name, "tier": tier})
        return str(answer.raise_for_status().json()["key"])

    def submit(self, key: str, body: dict[str, Any]) -> str:
        answer = self._http.post("/api/v1/jobs", headers={"Authorization": f"Bearer {key}"}, json=body)
        return str(answer.raise_for_status().json()["job_id"])

    def bulk(self, key: str, action: str, selector: dict[str, Any]) -> None:
        """Start an operation on the jobs that match."""
        body = {"action": action, "filter": selector}
        answer = self._http.post("/api/v1/jobs/bulk", headers={"Authorization": f"Bearer {key}"}, json=body)
        answer.raise_for_status()

    def control(self, method: str, path: str, body: Any = None, regions: tuple[str, ...] = REGIONS) -> None:
        """Send a control request to the simulated GPUs of the regions."""
        for region in regions:
            address = f"{self.stack.url(f'gpusim-{region}')}/control/{path}"
            httpx.request(
                method, address, json=body, trust_env=False, timeout=WAIT_TIMEOUT_S
            ).raise_for_status()

    def make_instant(self, *models: str) -> None:
        """Loads and runs of these models take no time until the reset."""
        self.control("PUT", "models", {model: {"load": 0, "run": 0} for model in models})

    def hold(self, model: str) -> None:
        """Runs of this model do not end until `release`."""
        self.control("POST", "faults", {"kind": "hold", "model": model})

    def release(self) -> None:
        """Held runs complete, and no further runs are held."""
        self.control("POST", "release")

    def credit(self, key: str) -> int:
        return int(self._me(key)["credit"])

    def add_credit(self, key: str, amount: int) -> None:
        """Add credit to the user of the key."""
        path = f"/admin/users/{self._me(key)['user_id']}/credit"
        self._http.post(path, headers=self.stack.admin, json={"amount": amount}).raise_for_status()

    def pause(self, job_class: str) -> None:
        self._http.post(f"/admin/queues/{job_class}/pause", headers=self.stack.admin).raise_for_status()

    def resume(self, job_class: str) -> None:
        self._http.post(f"/admin/queues/{job_class}/resume", headers=self.stack.admin).raise_for_status()

    def roll_back(self, revision: int) -> None:
        """The configuration of an earlier revision, if it has changed; whatever work that strands."""
        path, body = "/admin/config/rollback?force=true", {"revision": revision}
        self._http.post(path, headers=self.stack.admin, json=body).raise_for_status()

    def jobs(self, key: str) -> list[dict[str, Any]]:
        answer = self._http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {key}"})
        return list(answer.raise_for_status().json()["jobs"])

    def _me(self, key: str) -> Any:
        answer = self._http.get("/api/v1/me", headers={"Authorization": f"Bearer {key}"})
        return answer.raise_for_status().json()

    def reset(self) -> None:
        self.control("POST", "reset")
