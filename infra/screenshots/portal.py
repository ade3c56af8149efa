"""The pictures of the portal: a matrix job while some of its executions run, and a matrix of images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

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
IMAGE_PROMPTS = {
    "lighthouse": "A lighthouse at dusk",
    "harbour": "A harbour town in the rain",
    "station": "A railway station at night",
}
IMAGE_MODELS = ("flux", "sdxl")
IMAGE_REGIONS = ("US", "EU")


async def capture_matrix(browser: Browser, stack: Stack, image: Path) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S) as http:
        key = await create_user(http, stack, "Ada")
        for process, model, runs in HELD:
            fault = {"kind": "hold", "model": model, "next": runs}
            control = f"{stack.processes[process].url}/control/faults"
            (await http.post(control, json=fault)).raise_for_status()
        job_id = await submit(http, stack, key, matrix("Model comparison", QUESTIONS, MODELS, REGIONS))
    page = await open_page(browser, "light")
    await open_job(page, stack.credentials.portal_url, key, job_id)
    await wait_for_cells(page, ".cell[data-tone=ok]", MIN_COMPLETED)
    await page.screenshot(path=image)
    await page.context.close()


async def capture_images(browser: Browser, stack: Stack, image: Path) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S) as http:
        key = await create_user(http, stack, "Grace")
        job = matrix("Illustrations", IMAGE_PROMPTS, IMAGE_MODELS, IMAGE_REGIONS)
        job_id = await submit(http, stack, key, job)
    page = await open_page(browser, "dark")
    await open_job(page, stack.credentials.portal_url, key, job_id)
    cells = len(IMAGE_PROMPTS) * len(IMAGE_MODELS) * len(IMAGE_REGIONS)
    await wait_for_cells(page, ".cell .thumbnail", cells)
    await expect(page.locator(".zoom img")).to_have_count(len(IMAGE_MODELS) * len(IMAGE_REGIONS))
    await page.wait_for_load_state("networkidle")
    await page.evaluate("() => window.scrollBy(0, 245)")
    await page.screenshot(path=image)
    await page.context.close()


async def open_page(browser: Browser, theme: Literal["light", "dark"]) -> Page:
    context = await browser.new_context(
        viewport={"width": 1280, "height": 860}, locale="en-GB", color_scheme=theme
    )
    page = await context.new_page()
    page.set_default_timeout(TIMEOUT_S * 1000)
    return page


async def create_user(http: httpx.AsyncClient, stack: Stack, name: str) -> str:
    credentials = stack.credentials
    response = await http.post(
        f"{credentials.runner_url}/admin/users",
        headers=bearer(credentials.admin_key),
        json={"name": name, "tier": "creator"},
    )
    return str(response.raise_for_status().json()["key"])


async def submit(http: httpx.AsyncClient, stack: Stack, key: str, job: dict[str, object]) -> str:
    response = await http.post(f"{stack.credentials.runner_url}/api/v1/jobs", headers=bearer(key), json=job)
    return str(response.raise_for_status().json()["job_id"])


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def matrix(
    name: str, prompts: Mapping[str, str], models: Sequence[str], regions: Sequence[str]
) -> dict[str, object]:
    return {
        "kind": "matrix",
        "name": name,
        "questions": [{"id": question, "prompt": prompt} for question, prompt in prompts.items()],
        "models": list(models),
        "regions": list(regions),
        "failover": "pinned",
    }


async def open_job(page: Page, address: str, key: str, job_id: str) -> None:
    """Sign in and open the page of a job."""
    await page.goto(address)
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    await page.goto(f"{address}#/jobs/{job_id}")


async def wait_for_cells(page: Page, selector: str, least: int) -> None:
    await page.wait_for_function(
        "([cells, least]) => document.querySelectorAll(cells).length >= least", arg=[selector, least]
    )
    await page.wait_for_load_state("networkidle")
