"""The vectors leave nothing out: each rule is kept by one and broken by one, each message is read in every reading."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.docs.test_rules import PAGE, rules_of_the_source
from tests.vectors.load import (
    HERE,
    OTHER_KINDS,
    PROTOCOLS,
    cases,
    cfield_cases,
    encode_cases,
    topic_cases,
    valid,
    vectors,
)
from wirelake.protocols import load

ROOT = Path(__file__).resolve().parents[2]

NOTES = {"java_padding"}
"""No fault but a tolerated oddity."""
ELSEWHERE = (
    {
        "cell_type": "tests/codec/test_encoder.py",
        "field_type": "tests/codec/test_encoder.py",
        "not_hex": "tests/cli/test_decode.py",
        "capture": "tests/capture/test_tcp.py",
        "encrypted": "tests/capture/test_quarantine.py",
        "escape": "tests/codec/test_escapes.py",
        "frame_torn": "tests/capture/test_messages.py",
        "gap": "tests/capture/test_streams.py",
        "redacted": "tests/capture/test_redact.py",
        "time_range": "tests/capture/test_strange_times.py",
        "timestamp_range": "tests/codec/test_scales.py",
        "upstream": "tests/capture/test_protocol_reader.py",
        "websocket": "tests/capture/test_websocket.py",
    }
    | dict.fromkeys(
        ("duplicate_reply", "duplicate_request", "group_order", "page_order", "state", "unexpected_reply"),
        "tests/gold/test_violations.py",
    )
    | dict.fromkeys(
        ("answer_error", "connection_failed", "connection_lost", "refused", "request_timeout"),
        "tests/live/core/test_errors.py",
    )
    | dict.fromkeys(
        ("conversation_over", "in_doubt", "not_enqueued", "rolled_back", "service_failed"),
        "tests/live/casual/test_errors.py",
    )
    | dict.fromkeys(("buffer_value", "cstring_nul"), "tests/live/casual/test_values.py")
    | dict.fromkeys(
        ("checksum", "constant", "depth_limit", "digits", "terminator", "trailer", "unknown_tag", "varint"),
        "tests/codec/test_own_rules.py",
    )
)
"""Broken only by what no vector can hold: Python objects of the wrong type, a line that is not hex, whole captures and
conversations, protocols of users.
"""
TO_ENCODE = {"field_missing", "field_not_allowed", "int_range", "json_shape", "unknown_message"}
"""Rules about objects that are to be written; a good one is every object that is."""


def broken() -> set[str]:
    found = {vector.error["rule"] for protocol in PROTOCOLS for vector in vectors(protocol) if vector.error}
    found |= {case.error["rule"] for protocol in PROTOCOLS for case in encode_cases(protocol) if case.error}
    found |= {case.error["rule"] for case in cfield_cases() if case.error}
    return found | {case["error"] for case in topic_cases("mb") if "error" in case}


def kept() -> set[str]:
    found = {rule for protocol in PROTOCOLS for vector in vectors(protocol) for rule in vector.obeys}
    found |= {note for protocol in PROTOCOLS for v in valid(protocol) for note in (v.message or {}).get("notes", ())}
    found |= {rule for case in cfield_cases() for rule in case.obeys}
    return found | ({"pattern", "topic"} if any(case["matches"] for case in topic_cases("mb")) else set())


def test_every_rule_is_broken_by_a_vector() -> None:
    assert rules_of_the_source() - broken() - NOTES == set(ELSEWHERE)


@pytest.mark.parametrize("rule", sorted(ELSEWHERE))
def test_what_no_vector_can_break_is_broken_elsewhere(rule: str) -> None:
    assert f'"{rule}"' in (ROOT / ELSEWHERE[rule]).read_text(encoding="utf-8")


def test_every_rule_is_kept_by_a_vector_that_only_just_does() -> None:
    assert rules_of_the_source() - kept() == TO_ENCODE | set(ELSEWHERE)
    assert any(case.expected is not None for protocol in PROTOCOLS for case in encode_cases(protocol))


def test_the_vectors_name_no_rule_that_does_not_exist() -> None:
    assert (broken() | kept()) - rules_of_the_source() == set()


def test_every_rule_of_the_vectors_is_in_the_list_of_rules() -> None:
    listed = set(re.findall(r"^\| `([a-z0-9_]+)` ", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert (broken() | kept()) - listed == set()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_message_is_read_in_every_reading_that_has_it(protocol: str) -> None:
    """Options that choose between layouts; others (what to show, character sets) are tested where they are read."""
    declared = load(protocol)
    choosing = {"profile", "mode", "dialect"} & set(declared.options)
    seen = defaultdict(set)
    for vector in valid(protocol):
        for option in choosing:
            assert vector.message is not None
            seen[vector.message["name"]].add(vector.options[option])
    for cls in declared.messages:
        for option in choosing:
            wanted = {value for value in declared.options[option].values if value != "auto"}
            assert wanted <= seen[cls.__message__["name"]], cls.__name__


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_message_is_also_refused(protocol: str) -> None:
    files = {vector.file for vector in vectors(protocol) if vector.error}
    names = {cls.__message__["name"] for cls in load(protocol).messages}
    by_layer = names if protocol == "mb" else set()  # all actions of mb share one header, whose faults are in one file
    assert names - files <= by_layer


@pytest.mark.parametrize("path", sorted(HERE.glob("*/*.json")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_is_well_formed(path: Path) -> None:
    found = cases(path.parent.name, path.stem)
    if path.stem != "topics":
        names = [case["case"] for case in found]
        assert len(set(names)) == len(names)
        assert all(case["about"] and case["source"] for case in found)
    if path.stem not in OTHER_KINDS:
        for case in found:
            assert ("message" in case) != ("error" in case), case["case"]
            assert set(case) <= {"case", "about", "source", "options", "hex", "message", "error", "encoded", "obeys"}
            if "error" in case:
                assert set(case["error"]) == {"verdict", "rule", "path", "offset"}
