"""The address of a server: what is asked of it starts with this and goes nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from capplan.errors import RequestError, ServerError

_SUFFIXES = ("/metrics", "/v1/chat/completions", "/v1/completions", "/v1/models", "/v1")
_PORTS = {"http": 80, "https": 443}
_EXAMPLE = "Give it as http://localhost:8000."


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    """Path before ``/metrics`` and ``/v1``, without a closing slash."""

    def __str__(self) -> str:
        """Return the address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = _PORTS[self.scheme] == self.port
        return f"{self.scheme}://{host}{'' if usual else f':{self.port}'}{self.prefix}"


def parse_address(url: str) -> ServerAddress:
    """Read a server's address.

    Raises
    ------
    RequestError
        For another scheme than http and https, credentials in the URL, or no host.
    """
    spelled = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(spelled)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise RequestError(f"{url!r} is no address of a server: {error}.", _EXAMPLE) from error
    if parts.scheme not in _PORTS:
        raise RequestError(f"Only http and https are spoken, not {parts.scheme!r}.", _EXAMPLE)
    if parts.username is not None or parts.password is not None:
        raise RequestError(
            "The address holds credentials, which would end up in files.",
            "Put the key into the environment variable CAPPLAN_API_KEY.",
        )
    if not host or parts.query or parts.fragment or not is_plain(host + parts.path):
        raise RequestError(f"{url!r} is no address of a server.", _EXAMPLE)
    path = parts.path.rstrip("/")
    for suffix in _SUFFIXES:
        path = path.removesuffix(suffix)
    return ServerAddress(parts.scheme, host, port or _PORTS[parts.scheme], path.rstrip("/"))


def redirected(address: ServerAddress, target: str, location: str) -> str:
    """Return the path that a server points to, if it lies on the same server.

    Raises
    ------
    ServerError
        If it points to another host, port or scheme, or to nothing that can be read.
    """
    here = f"{address.scheme}://{_in_url(address.host)}:{address.port}{target}"
    try:
        there = urlsplit(urljoin(here, location))
        place = there.scheme, there.hostname or "", there.port or _PORTS.get(there.scheme, 0)
    except ValueError as error:
        raise ServerError(
            f"{address} points to something that is no address.", "Look at the server's log."
        ) from error
    if place != (address.scheme, address.host, address.port):
        # Only host and port are told: the rest of a URL may hold what nobody should see.
        raise ServerError(
            f"{address} points to another server: {place[0]}://{_in_url(place[1])}:{place[2]}.",
            "Nothing is sent anywhere but to the address given; give that one if you mean it.",
        )
    return there.path or "/"


def is_plain(text: str) -> bool:
    """Whether a text can stand in a request's line or header: printable ASCII without spaces."""
    return text.isascii() and text.isprintable() and " " not in text


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
