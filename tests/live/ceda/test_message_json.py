"""CEDA messages as JSON lines."""

from __future__ import annotations

import pytest

from wirelake.live.ceda.message_json import MESSAGE_JSON as CEDA
from wirelake.live.core.message_json import parse_line


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"topic":"a","record":5}', "the record must be"),
        ('{"topic":"a","record":{"x":1}}', "'x' is not a field number"),
        ('{"topic":"a","record":{"1":true}}', "field 1: true"),
        ('{"topic":"a","record":{"1":[]}}', "field 1"),
        ('{"topic":"a","record":[{"fid":1,"type":"TEXT"}]}', "not a field type"),
        ('{"topic":"a","signal_id":1}', '"signal_id" must be text'),
    ],
)
def test_a_line_of_ceda_that_makes_no_sense_is_refused(line: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        parse_line(CEDA, line)
