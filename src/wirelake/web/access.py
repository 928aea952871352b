"""Which names of this machine requests may use: none that another site could point here, as the Host header tells."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from .http import Refused, Request


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def check_host(request: Request, names: Iterable[str]) -> None:
    """Raise Refused unless the request names localhost, an address, or one of these names: no page of another site
    reaches us by an address, so only names can be somebody else's.
    """
    host = request.headers.get("host", "localhost")
    name = re.sub(r":[0-9]{1,5}$", "", host).strip("[]").lower()
    if not is_own_name(name) and name not in {known.lower() for known in names}:
        raise Refused(421, f"this server does not have that name; add it to hosts if it should: {host[:64]!r}")


def is_own_name(name: str) -> bool:
    """Tell whether a name is localhost or an address, which no page of another site can have."""
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
