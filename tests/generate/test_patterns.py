from __future__ import annotations

import re
from random import Random

import pytest

from wirelake.generate.patterns import texts
from wirelake.protocols import mb


@pytest.mark.parametrize(
    "pattern",
    [
        "abc",
        "[a-c]+x?",
        "(?:one|two|)[^0-9a-z]{2,5}",
        r"\d{3}\s\w*\D",
        "(a|b){3}?.",
        r"[\d_]{4}",
        r"[^\W\d]{2,}",
        "[^:]",
        "(?P<x>[1-9])(?i:y)",
        mb.TOPIC,
        mb.SEMVER,
        mb.UUID4,
        mb.ANY_UUID,
    ],
)
def test_every_text_matches_its_pattern(pattern: str) -> None:
    write = texts(pattern)
    rng = Random(1)
    made = [write(rng, size) for size in (0.0, 1.0, 3.0) for _ in range(60)]
    assert [text for text in made if re.fullmatch(pattern, text) is None] == []


def test_alternatives_and_repetitions_all_occur() -> None:
    rng = Random(2)
    made = {texts("(?:a|b)c{0,2}")(rng, 1.0) for _ in range(300)}
    assert made == {"a", "b", "ac", "bc", "acc", "bcc"}


def test_a_construct_without_texts_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="GROUPREF"):
        texts(r"(a)\1")
