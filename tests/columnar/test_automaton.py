"""Tables against regular expressions."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from wirelake.columnar.automaton import Unsupported, build
from wirelake.kernels.words import matches
from wirelake.protocols import mb

PATTERNS = [mb.TOPIC, mb.PLAIN_VERSION, mb.UUID4, mb.ANY_UUID, "[1-9][0-9]{0,5}", "(?:ab|cd)+x?", "a{2,4}b*"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_table_accepts_what_the_pattern_matches(pattern: str) -> None:
    table, about = build(["zz", pattern])
    rng = random.Random(1)
    letters = "abcdx.-0123456789zA4f"
    samples = ["a.b", "a.b.c.d.e", "a.b.c.d.e.f", "1.0.0", "0.10.3", "01.0.0", "10000.1.1"]
    samples += ["3f2b8c1e-6d4a-4b7e-9c05-1a2b3c4d5e6f"]
    samples += ["".join(rng.choice(letters) for _ in range(rng.randrange(12))) for _ in range(3000)]
    samples += [s[:-1] + rng.choice(letters) for s in samples if s]
    matched = 0
    for text in samples:
        found = matches(np.frombuffer(text.encode() or b"-", np.uint8), 0, len(text), table, about[2:])
        assert found == (re.fullmatch(pattern, text) is not None), text
        matched += found
    assert matched


def test_a_pattern_with_a_set_of_bytes_per_place_is_known_as_a_chain() -> None:
    _, about = build([mb.UUID4, mb.TOPIC, "ab?", "x"])
    assert about[1::2].tolist() == [36, 0, 0, 1]


@pytest.mark.parametrize("pattern", ["a(?=b)", "^a", r"\bx", "(a)\\1", "é", "[^a]"])
def test_what_a_table_cannot_say_is_refused(pattern: str) -> None:
    with pytest.raises(Unsupported):
        build([pattern])
