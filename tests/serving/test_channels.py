"""What a channel to an engine is opened with: files that cannot be used are named before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.neighbours.certificates import Authority

from tidegate_serving.channels import open_channel
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import InvalidInput


def test_a_clients_certificate_and_a_key_that_is_not_its_own_are_told(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mine, other = authority.issue("mine"), authority.issue("other")
    connection = EngineConnection(("127.0.0.1:1",), True, authority.file, mine.certificate, other.key)
    with pytest.raises(InvalidInput, match=r"key .*other.* cannot be used with certificate .*mine.*: name the key"):
        open_channel(connection)
    open_channel(EngineConnection(("127.0.0.1:1",), True, authority.file, mine.certificate, mine.key)).close()
