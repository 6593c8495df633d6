"""One plain request to a server that may not be there yet."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def request(
    url: str,
    *,
    method: str = "GET",
    body: Any = None,
    ca_file: Path | None = None,
    token: str | None = None,
    timeout_seconds: float = 60.0,
) -> tuple[int, bytes]:
    """
    Status and body of one answer.

    `body` is sent as JSON. Raises `OSError` or `http.client.HTTPException` when there is no
    answer.
    """
    parts = urlsplit(url)
    headers = {"User-Agent": "kcm-host-testing", "Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection = _connection(parts.scheme, parts.netloc, ca_file, timeout_seconds=timeout_seconds)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, target, body=data, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def answers(url: str, *, ca_file: Path | None = None, token: str | None = None) -> bool:
    """Return whether a GET is answered with 200; False if nothing comes within 5 s."""
    try:
        return request(url, ca_file=ca_file, token=token, timeout_seconds=5.0)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def _connection(
    scheme: str, address: str, ca_file: Path | None, timeout_seconds: float
) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(address, timeout=timeout_seconds)
    context = ssl.create_default_context(cafile=ca_file)
    return http.client.HTTPSConnection(address, timeout=timeout_seconds, context=context)
