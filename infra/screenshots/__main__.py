"""Start the whole system, run jobs and write docs/images: `python -m infra.screenshots`."""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from beacon_devstack.home import Home
from beacon_devstack.settings import ROUTER_PORT, RUNNER_PORT, StackSettings
from beacon_devstack.stack import Stack
from infra.screenshots import CHROMIUM_FLAGS
from infra.screenshots.portal import capture_images, capture_matrix
from infra.screenshots.terminal import capture_terminal

IMAGES = Path("docs/images")
MAX_BYTES = 300_000


async def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("screenshots: Chromium is not installed (Debian: apt-get install chromium)")
    settings = StackSettings.from_environment({**os.environ, RUNNER_PORT: "0", ROUTER_PORT: "0"})
    with tempfile.TemporaryDirectory() as directory:
        async with Stack(Home.at(directory), settings) as stack, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
            await capture_all(stack, browser)
            await browser.close()


async def capture_all(stack: Stack, browser: Browser) -> None:
    terminal, matrix = IMAGES / "terminal.png", IMAGES / "portal-matrix-light.png"
    images = IMAGES / "portal-images-dark.png"
    await capture_terminal(browser, stack.home.path, terminal)
    await capture_images(browser, stack, images)
    await capture_matrix(browser, stack, matrix)
    for image in (terminal, matrix, images):
        check_size(image)


def check_size(image: Path) -> None:
    size = image.stat().st_size
    sys.stdout.write(f"    {image} ({size // 1000} kB)\n")
    if size > MAX_BYTES:
        sys.exit(f"screenshots: {image} is larger than {MAX_BYTES // 1000} kB")


asyncio.run(main())
