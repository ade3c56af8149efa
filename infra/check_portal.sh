#!/bin/sh
# Type-checks and lints the JavaScript of the portal with the tools of services/portal/package-lock.json.
set -eu

cd "$(dirname "$0")/../services/portal"
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "skipped: Node is not installed (Debian: apt-get install nodejs npm)"
    exit 0
fi
if ! cmp -s package-lock.json node_modules/.beacon-lock; then
    npm ci --silent
    cp package-lock.json node_modules/.beacon-lock
fi
# Parameters may have implicit types (TS70xx). The option noImplicitAny stays on all the same: without it the
# compiler lets any property be read from an object literal.
node_modules/.bin/tsc --version
if node_modules/.bin/tsc --project . | grep 'error TS' | grep -v 'error TS70[0-9][0-9]:'; then
    exit 1
fi
node_modules/.bin/biome lint --error-on-warnings
