"""The picture of the command line: commands run on a pseudo-terminal, drawn by the browser."""

import asyncio
import io
import os
import pty
import re
import sys
from pathlib import Path

from playwright.async_api import Browser
from rich.console import Console
from rich.text import Text

COLUMNS = 100
COMMANDS = (
    (
        *("submit", "--watch", "-q", "Why is the sky blue?"),
        *("-m", "llama3.2-1b", "-m", "mistral-7b", "-r", "US", "-r", "EU"),
    ),
    ("doctor",),
)
# The control sequences of rich's live displays: erase a line, cursor up, show and hide the cursor.
CONTROL = re.compile(r"(\r|\n|\x1b\[2K|\x1b\[1A|\x1b\[\?25[lh])")
PAGE = """<!doctype html>
<style>
  body {{ margin: 0; padding: 20px; background: #e9edf2; display: inline-block; }}
  main {{ border-radius: 10px; background: #14181f; box-shadow: 0 6px 18px rgb(0 0 0 / .3); }}
  header {{ display: flex; gap: 8px; padding: 12px 14px 0; }}
  i {{ width: 12px; height: 12px; border-radius: 6px; background: #3a4350; }}
  pre {{ margin: 0; padding: 10px 18px 18px; color: #dfe5ec; font: 14px/1.35 "DejaVu Sans Mono", "Liberation Mono", monospace; }}
</style>
<main><header><i></i><i></i><i></i></header><pre>{code}</pre></main>
"""  # noqa: E501


async def capture_terminal(browser: Browser, home: Path, image: Path) -> None:
    lines: list[str] = []
    for command in COMMANDS:
        shown = " ".join(f'"{word}"' if " " in word else word for word in command)
        lines += [
            f"\x1b[32m$\x1b[0m \x1b[1mbeacon {shown}\x1b[0m",
            *screen_lines(await run(command, home)),
            "",
        ]
    page = await browser.new_page(viewport={"width": 1000, "height": 600})
    await page.set_content(PAGE.format(code=as_html(lines[:-1])))
    await page.locator("body").screenshot(path=image)
    await page.close()


async def run(command: tuple[str, ...], home: Path) -> str:
    """The output of a command of `beacon` on a terminal."""
    size = {"COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    main_end, process_end = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "beacon_cli", *command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=process_end,
        stderr=process_end,
        env={**os.environ, **size, "BEACON_HOME": str(home)},
    )
    os.close(process_end)
    output = await asyncio.to_thread(read_all, main_end)
    if await process.wait() != 0:
        raise RuntimeError(f"beacon {' '.join(command)} failed:\n{output}")
    return output


def read_all(descriptor: int) -> str:
    output = b""
    try:
        while chunk := os.read(descriptor, 65536):
            output += chunk
    except OSError:  # Linux reports the end of a pseudo-terminal as EIO
        pass
    finally:
        os.close(descriptor)
    return output.decode()


def screen_lines(output: str) -> list[str]:
    """The lines that remain on the screen."""
    lines = [""]
    row = 0
    for part in CONTROL.split(output):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part == "\x1b[1A":
            row -= 1
        elif part and not CONTROL.fullmatch(part):
            lines[row] += part
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n")


def as_html(lines: list[str]) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    return console.export_html(inline_styles=True, code_format="{code}")
