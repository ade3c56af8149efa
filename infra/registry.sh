# Sourced by scripts and recipes that install with uv or npm: pass_registry_to_uv <python>

# They do not read pip's configuration: pass on the index and the certificate that are set for pip alone.
pass_registry_to_uv() {
    index=$(pip_setting "$1" index-url)
    if [ -n "$index" ] && [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then
        export UV_DEFAULT_INDEX="$index"
    fi
    certificate=$(pip_setting "$1" cert)
    if [ -n "$certificate" ]; then
        export SSL_CERT_FILE="${SSL_CERT_FILE:-$certificate}"
        export NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-$certificate}" # of npm
    fi
}

# Reads pip's files and variables; variables are listed first and have priority.
pip_setting() {
    "$1" -m pip config list 2>/dev/null | sed -nE "s/^(:env:|global)\.$2='(.*)'\$/\2/p" | head -n 1
}
