"""Regular expressions that strangers may send, searched by RE2: in time proportional to the text, whatever they say.

Services filter the broker's log with them, in the syntax of JavaScript. Where RE2 reads that syntax differently it is
rewritten here; what RE2 cannot do (look-around, back-references) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import re2

MAX_LENGTH = 1000
MAX_STEPS = 250
"""How large an expression may be as RE2 counts it, repetitions written out."""
MAX_TEXT = 400
"""How much of a text is searched."""

_TOKEN = re.compile(
    r"""\\(?:x(?P<byte>[0-9a-fA-F]{2})|u(?P<unit>[0-9a-fA-F]{4})|c(?P<control>[A-Za-z])|(?P<escaped>.))
    |(?P<none>\[\])|(?P<any>\[\^\])|(?P<open>\[\^?)
    |(?P<group>\(\?(?::|<[A-Za-z_$][0-9A-Za-z_$]*>))|(?P<unknown>\(\?)
    |(?P<plain>.)""",
    re.DOTALL | re.VERBOSE,
)
_SETS = {
    r"\s": r"\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}",
    r"\S": r"\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}",
}
"""White space and all else, as JavaScript has them; in RE2 they are ASCII."""
_ALL = r"\x{0}-\x{10ffff}"
_DOT = r"[^\n\r\x{2028}\x{2029}]"
_OPTIONS = re2.Options()
_OPTIONS.max_mem = 1 << 17
_OPTIONS.never_capture = True
_OPTIONS.log_errors = False


class Filter:
    """An expression, ready to search; ValueError if it is refused. ``steps`` is its size."""

    __slots__ = ("_search", "steps")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ValueError("the expression is too long")
        try:
            compiled = re2.compile("".join(_rewritten(text)).encode(), _OPTIONS)
        except re2.error as error:
            raise ValueError(f"cannot be read: {error.args[0].decode('utf-8', 'replace')}") from None
        self.steps: int = compiled.programsize
        if self.steps > MAX_STEPS:
            raise ValueError("the expression is too large")
        self._search = compiled.search

    def search(self, text: str) -> bool:
        return self._search(text[:MAX_TEXT].encode("utf-8", "replace")) is not None


def _rewritten(text: str) -> Iterator[str]:
    """The expression in RE2's syntax, token by token."""
    in_class = after_assertion = False
    for found in _TOKEN.finditer(text):
        token = found[0]
        if after_assertion and token in ("*", "+", "?"):
            raise ValueError("nothing to repeat")
        yield _translated(found, in_class)
        after_assertion = not in_class and token in ("^", "$", r"\b", r"\B")
        in_class = token == "\\]" or not token.endswith("]") if in_class else found["open"] is not None
    if text.endswith("\\") and (len(text) - len(text.rstrip("\\"))) % 2:
        raise ValueError("the expression ends too early")


def _translated(found: re.Match[str], in_class: bool) -> str:
    """A token in RE2's syntax. In a class RE2 has names in brackets, which JavaScript has not."""
    token = found[0]
    if token in _SETS:
        return _SETS[token] if in_class else f"[{_SETS[token]}]"
    if token in (r"\b", r"\B") and not in_class:
        return token
    if token.startswith("\\") and len(token) > 1:
        return r"\x08" if token == r"\b" else _character(found)
    if in_class:
        return token.replace("[", r"\[")
    match found.lastgroup:
        case "none":
            return f"[^{_ALL}]"
        case "any":
            return f"[{_ALL}]"
        case "group":
            return "(?:"
        case "unknown":
            raise ValueError("looking ahead or behind, and other special groups, are not supported")
    return _DOT if token == "." else token


def _character(found: re.Match[str]) -> str:
    """A character behind a backslash. Letters that mean nothing in JavaScript stand for themselves."""
    if code := found["byte"] or found["unit"]:
        return f"\\x{{{code}}}"
    if found["control"]:
        return f"\\x{{{ord(found['control']) % 32:x}}}"
    escaped: str = found["escaped"]
    if escaped in "123456789k":
        raise ValueError("back-references are not supported")
    if escaped in "dDwWtnrfv":
        return f"\\{escaped}"
    return r"\x{0}" if escaped == "0" else re2.escape(escaped)
