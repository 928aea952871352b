"""match: topics against patterns."""

from __future__ import annotations

import json

from tests.cli.invoked import objects, run


def test_match_answers_each_line() -> None:
    asked = [("a.#", "A"), ("a.+", "a"), ("a.b.c.d.e.#", "a"), ("a", "a..b")]
    given = "\n".join(json.dumps({"pattern": p, "topic": t}) for p, t in asked)
    result = run("match", "-p", "mb", "-", given=given)
    assert objects(result) == [
        {"matches": True},
        {"matches": False},
        {"matches": False, "error": "pattern"},
        {"matches": False, "error": "topic"},
    ]
    assert result.exit_code == 1
