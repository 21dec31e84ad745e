"""Refuse requests for other hosts, and requests that cause work without the page's token.

A web page of someone else can make the browser send requests to this machine. If the domain of that
page pointed at this machine (DNS rebinding), the page could read the answers; therefore requests
with a foreign Host header are refused. The page could also make the server compute; therefore every
request other than a plain request for data needs a token that only our own page has.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::")
TOKEN = "x-nearsight-token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
SAFE = ("GET", "HEAD")

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str | None:
    """Return the host of a Host header without its port, or None if it is malformed.

    >>> host_name("localhost:8000"), host_name("[::1]:8000"), host_name("a b"), host_name("x:y")
    ('localhost', '::1', None, None)
    """
    if header.startswith("["):
        name, closed, rest = header[1:].partition("]")
        port = rest.removeprefix(":") if closed and rest[:1] in ("", ":") else "wrong"
    else:
        name, _, port = header.partition(":")
    fine = all(letter.isalnum() or letter in ".-:%" for letter in name)
    return name.lower() if name and fine and (not port or port.isdecimal()) else None


def is_ours(header: str, host: str) -> bool:
    """Tell whether a Host header names this server, which listens on ``host``.

    >>> is_ours("127.0.0.1:8000", "127.0.0.1"), is_ours("evil.example:8000", "127.0.0.1")
    (True, False)
    """
    name = host_name(header)
    if name is None:
        return False
    if name in LOOPBACK or name == host.lower():
        return True
    if host not in EVERYWHERE:
        return False
    if name == socket.gethostname().lower():
        return True
    try:  # a name may be made to point at this machine; a numeric address may not
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """ASGI middleware that refuses foreign requests and adds strict headers to every answer."""

    def __init__(self, app: Any, host: str, token: str) -> None:
        self.app = app
        self.host = host
        self.token = token

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request with a refusal, or pass it to the application."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("a request does not use HTTP")  # the application has no web sockets
        reason = self.refusal(scope["method"], _headers(scope))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                kept = [x for x in message["headers"] if x[0].decode().lower() not in HEADERS]
                message = {**message, "headers": [*kept, *own]}
            await send(message)

        if reason is None:
            await self.app(scope, receive, guarded)
            return
        status, text = reason
        content = [(b"content-type", b"text/plain; charset=utf-8")]
        await guarded({"type": "http.response.start", "status": status, "headers": content})
        await guarded({"type": "http.response.body", "body": text.encode()})

    def refusal(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason if a request is refused, else None."""
        if not is_ours(headers.get("host", ""), self.host):
            return 421, "This server answers requests for its own address only."
        if method in SAFE:
            return None
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers["host"]:
            return 403, "Only the page of this server may send anything to it."
        if not secrets.compare_digest(headers.get(TOKEN, "").encode(), self.token.encode()):
            return 403, "This request lacks the token of the page."
        return None


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return headers by lower-case name, with an empty value if a header occurs twice."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = "" if key in found else value.decode("latin-1")
    return found
