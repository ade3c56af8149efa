#!/bin/sh
# Creates the virtual environment: infra/setup.sh <directory> <workspace package>...
# Every version and hash comes from requirements.lock; the packages of this workspace are installed editable.
set -eu

venv=$1
shift
python="$venv/bin/python"

say() { printf '==> %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if recent "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed, and $(python3 --version 2>&1 || echo 'no python3') was found;" \
        "install one, or name it: make PYTHON=/path/to/python3.11 $(basename "$0" .sh)"
}

make_venv() {
    base=$(find_python)
    say "creating a virtual environment with $("$base" --version) in $venv"
    # --clear: replaces an incomplete environment, or one whose Python was removed.
    "$base" -m venv --clear "$venv" ||
        fail "$base cannot create virtual environments; on Debian and Ubuntu: apt install python3-venv"
}

install_uv() {
    # The pinned entry with its hashes: the lines from its name to the first one without a continuation.
    sed -n '/^uv==/,/[^\\]$/p' requirements.lock >"$venv/uv.txt"
    "$python" -m pip install -q --disable-pip-version-check --require-hashes -r "$venv/uv.txt"
}

install_locked() {
    say "installing $(grep -c '^[a-z0-9].*==' requirements.lock) locked packages"
    "$python" -m uv pip install -q --python "$python" --require-hashes --compile-bytecode -r requirements.lock || {
        say "uv failed; trying pip, which is slower"
        "$python" -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
    }
}

install_workspace() {
    say "installing the packages of this workspace"
    for package in "$@"; do
        set -- "$@" -e "./$package"
        shift
    done
    "$python" -m uv pip install -q --python "$python" --no-deps --build-constraints infra/build.lock "$@" ||
        "$python" -m pip install -q --disable-pip-version-check --no-deps "$@"
}

mkdir -p "${HOME:?}"
recent "$python" || make_venv
. infra/registry.sh
pass_registry_to_uv "$python"
install_uv
install_locked
install_workspace "$@"
say "ready"
