"""The picture of the portal: a matrix job while some of its executions run."""

from pathlib import Path

import httpx
from playwright.async_api import Browser, Page, expect

from beacon_devstack.stack import Stack

TIMEOUT_S = 60
QUESTIONS = {
    "photosynthesis": "How do plants turn light into sugar?",
    "inflation": "What causes inflation, and how do central banks respond to it?",
    "tcp": "Why does TCP need a three-way handshake?",
    "haiku": "Write a haiku about the first snow of the year.",
}
MODELS = ("llama3.2-1b", "qwen2.5-1.5b", "mistral-7b")
REGIONS = ("US", "EU", "ASIA")
# Runs that do not end while the picture is taken: simulator, model, number of runs.
HELD = (("gpusim-eu", "mistral-7b", 1), ("gpusim-asia", "mistral-7b", 3))
MIN_COMPLETED = 22


async def capture_matrix(browser: Browser, stack: Stack, image: Path) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S) as http:
        key = await create_user(http, stack, "Ada")
        for process, model, runs in HELD:
            fault = {"kind": "hold", "model": model, "next": runs}
            control = f"{stack.processes[process].url}/control/faults"
            (await http.post(control, json=fault)).raise_for_status()
        response = await http.post(
            f"{stack.credentials.runner_url}/api/v1/jobs", headers=bearer(key), json=matrix()
        )
        job_id = response.raise_for_status().json()["job_id"]
    context = await browser.new_context(
        viewport={"width": 1280, "height": 860}, locale="en-GB", color_scheme="light"
    )
    page = await context.new_page()
    page.set_default_timeout(TIMEOUT_S * 1000)
    await open_job(page, stack.credentials.portal_url, key, job_id)
    await page.screenshot(path=image)
    await context.close()


async def create_user(http: httpx.AsyncClient, stack: Stack, name: str) -> str:
    credentials = stack.credentials
    response = await http.post(
        f"{credentials.runner_url}/admin/users",
        headers=bearer(credentials.admin_key),
        json={"name": name, "tier": "creator"},
    )
    return str(response.raise_for_status().json()["key"])


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def matrix() -> dict[str, object]:
    return {
        "kind": "matrix",
        "name": "Model comparison",
        "questions": [{"id": name, "prompt": prompt} for name, prompt in QUESTIONS.items()],
        "models": list(MODELS),
        "regions": list(REGIONS),
        "failover": "pinned",
    }


async def open_job(page: Page, address: str, key: str, job_id: str) -> None:
    """Sign in and wait until most executions have completed."""
    await page.goto(address)
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    await page.goto(f"{address}#/jobs/{job_id}")
    await page.wait_for_function(
        "least => document.querySelectorAll('.cell[data-tone=ok]').length >= least", arg=MIN_COMPLETED
    )
    await page.wait_for_load_state("networkidle")
