#!/bin/sh
# Builds the router as its image does, with a compiled core: infra/compile.sh <virtual environment> <directory>
# Named by PYTHONPATH, the directory goes before the packages of this workspace.
set -eu

python="$1/bin/python"
directory=$2

say() { printf '==> %s\n' "$*"; }
fail() { printf 'compile: %s\n' "$*" >&2; exit 1; }
. infra/registry.sh

command -v "${CC:-cc}" >/dev/null 2>&1 ||
    fail "a C compiler is needed, and ${CC:-cc} was not found; on Debian and Ubuntu: apt install gcc python3-dev"
say "compiling the router's core (about a minute)"
tell_uv_of_the_registry
# In a copy: the build leaves its objects beside the sources, where they would be taken for them.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R services/router "$copy"
rm -rf "$directory"
HATCH_BUILD_HOOK_ENABLE_MYPYC=true "$python" -m uv pip install -q --python "$python" --target "$directory" \
    --no-deps --no-sources --build-constraints infra/build.lock "$copy/router"
PYTHONPATH=$directory "$python" -c 'from beacon_router.scheduling import COMPILED; raise SystemExit(not COMPILED)' ||
    fail "it was built and is not used"
