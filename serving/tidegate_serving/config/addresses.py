"""How addresses, URLs and paths of URLs are written in a config."""

from __future__ import annotations

import re

from tidegate_serving.contract.errors import InvalidInput

ADDRESSES = ("grpc_address", "rest_address", "control_address")
"""The keys of those that an engine listens on."""
_ADDRESS = re.compile(r"(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.%a-z]+\]):(\d{1,5})\Z")
_URL = re.compile(r"https?://[^\s/?#]+(?:/[^\s#]*)?\Z")
_PATH = re.compile(r"/[^\s?#]*\Z")
_MOST_PORT = 65535


def check_address(name: str, address: str, *, may_be_empty: bool = True) -> None:
    """InvalidInput unless `address`, of the key `name`, has a host and a port, or is empty where it may be."""
    found = _ADDRESS.match(address)
    if (address or not may_be_empty) and (found is None or int(found[1]) > _MOST_PORT):
        raise InvalidInput(f"{name} is {address!r}: write host:port, such as 127.0.0.1:8500, with port 0 for any")


def is_url(text: str) -> bool:
    """Whether it is one of http or https."""
    return _URL.match(text) is not None


def is_url_path(text: str) -> bool:
    """Whether it is the path of a URL."""
    return _PATH.match(text) is not None
