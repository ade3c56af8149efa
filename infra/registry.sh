# Sourced by scripts that install with uv; `$python` is that of the virtual environment.

# uv reads no pip configuration; where only pip was told of a registry or its certificate, pass it on.
tell_uv_of_the_registry() {
    index=$(pip_setting index-url)
    if [ -n "$index" ] && [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then
        export UV_DEFAULT_INDEX="$index"
    fi
    certificate=$(pip_setting cert)
    if [ -n "$certificate" ] && [ -z "${SSL_CERT_FILE:-}" ]; then
        export SSL_CERT_FILE="$certificate"
    fi
}

# From its files and variables alike; a variable is listed first and counts more.
pip_setting() {
    "$python" -m pip config list 2>/dev/null | sed -nE "s/^(:env:|global)\.$1='(.*)'\$/\2/p" | head -n 1
}
