"""Which URLs and addresses webhooks may be sent to: public ones, and private ones that an operator allows."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Every public IPv6 address. Others are local, or carry an IPv4 address that a gateway may connect to (NAT64).
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# `ipaddress` counts them as public: addresses of protocols (RFC 6890), where some clouds have their metadata,
# and the host services of Azure.
_HOST_SERVICES = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*", re.IGNORECASE)
MAX_NAME_LENGTH = 253
MAX_LABEL_LENGTH = 63
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")


class AddressNotAllowedError(Exception):
    """The address is private, local or reserved, and not allowed."""

    def __init__(self, host: str, address: Address) -> None:
        shown = host if host == str(address) else f"{host} ({address})"
        super().__init__(f"{shown} is not a public address")


def is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    """Public unicast addresses, and those of the `allowed` networks."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if mapped is not None:
        return is_allowed(mapped, allowed)
    if any(address in network for network in allowed):
        return True
    if isinstance(address, IPv6Address):
        tunnelled = address.sixtofour is not None or address.teredo is not None
        if tunnelled or address not in _GLOBAL_UNICAST:
            return False
    elif any(address in network for network in _HOST_SERVICES):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def checked_address(host: str, text: str, allowed: Sequence[Network]) -> Address:
    """The address that `host` resolved to; raises AddressNotAllowedError."""
    address = ip_address(text.partition("%")[0])
    if not is_allowed(address, allowed):
        raise AddressNotAllowedError(host, address)
    return address


def url_problem(url: str, allowed: Sequence[Network]) -> str | None:
    """What is wrong with a URL; None if nothing is. The addresses of names are checked when it is called."""
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "must consist of printable ASCII characters; encode others"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"is not a URL: {error}"
    rules = {
        "must begin with https:// or http://": parts.scheme in ("http", "https"),
        "must name a host": bool(parts.hostname),
        "must have no user and password": parts.username is None and parts.password is None,
        "must have no fragment": not parts.fragment,
        "must have a port between 1 and 65535": port != 0,
    }
    broken = next((rule for rule, kept in rules.items() if not kept), None)
    return broken or _host_problem(parts.hostname or "", allowed)


def _host_problem(host: str, allowed: Sequence[Network]) -> str | None:
    is_local = host.rstrip(".").endswith(_LOCAL_NAMES)
    try:
        checked_address(host, "127.0.0.1" if is_local else host, allowed)
    except AddressNotAllowedError as error:
        return f"{error}: webhooks are sent to public addresses only"
    except ValueError:  # a name, unless it is another notation of an IPv4 address, which resolvers accept
        labels = host.removesuffix(".").split(".")
        if _NUMBER.fullmatch(labels[-1]):
            return "must write an IPv4 address as four decimal numbers"
        if len(host) > MAX_NAME_LENGTH or not all(0 < len(label) <= MAX_LABEL_LENGTH for label in labels):
            return "must name a host; a part of the name has 1 to 63 characters"
    return None
