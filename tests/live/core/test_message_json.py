"""Lines of JSON as messages to send, of every live protocol."""

from __future__ import annotations

import pytest

from wirelake.live.core.message_json import parse_line
from wirelake.live.records import LIVE, Live

EACH = pytest.mark.parametrize("live", LIVE.values(), ids=list(LIVE))


@EACH
def test_a_name_that_a_line_cannot_have_is_refused_instead_of_sent_as_nothing(live: Live) -> None:
    with pytest.raises(ValueError, match=r'^"valeu" is no name of a line; it may have "\w+"'):
        parse_line(live.message_json, '{"topic": "a", "valeu": 17}')
