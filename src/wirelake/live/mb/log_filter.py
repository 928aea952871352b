"""Regular expressions that strangers may send: searched in time proportional to the text, whatever they say.

Services filter the broker's log with them. Python's own engine can be made to work for years by a few characters, so
this one follows all ways through the expression at once (Thompson's construction). It reads the JavaScript syntax that
peers use, without backreferences and without looking ahead or behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MAX_LENGTH = 1000
"""How long an expression may be."""
MAX_STEPS = 250
"""How large an expression may be, repetitions written out."""
MAX_TEXT = 400
"""How much of a text is searched."""
MAX_DEPTH = 40
"""How deep groups may lie in groups."""

Test = Callable[[str], bool]
_DIGITS = frozenset("0123456789")
_WORD = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACE = frozenset("\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") | {
    chr(c) for c in range(0x2000, 0x200B)
}
_LINE_ENDS = frozenset("\n\r\u2028\u2029")
_SETS: dict[str, Test] = {
    "d": _DIGITS.__contains__,
    "D": lambda c: c not in _DIGITS,
    "w": _WORD.__contains__,
    "W": lambda c: c not in _WORD,
    "s": _SPACE.__contains__,
    "S": lambda c: c not in _SPACE,
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_repeat = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}").match
_named = re.compile(r"\?(?::|<[A-Za-z_$][0-9A-Za-z_$]*>)").match
_coded = re.compile("x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})").match


@dataclass(frozen=True, slots=True)
class Step:
    """One place in an expression: takes a character, or asks about the place between two, or goes on to others."""

    takes: Test | None = None
    asks: str = ""
    to: tuple[int, ...] = ()


class Filter:
    """An expression, ready to search; ValueError if it cannot be read."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ValueError("the expression is too long")
        self._plain = text if not set(text) & set("\\^$.|?*+()[]{}") else None
        self._steps: tuple[Step, ...] = () if self._plain is not None else tuple(_Reader(text).steps())

    def search(self, text: str) -> bool:
        if self._plain is not None:
            return self._plain in text
        text = text[:MAX_TEXT]
        end = len(self._steps)
        here: set[int] = set()
        for at in range(len(text) + 1):
            here.add(0)
            before = text[at - 1] if at else ""
            after = text[at] if at < len(text) else ""
            here = self._spread(here, before, after)
            if end in here:
                return True
            here = {n + 1 for n in here if (takes := self._steps[n].takes) is not None and after and takes(after)}
        return False

    def _spread(self, here: set[int], before: str, after: str) -> set[int]:
        """All places that are reached from these without taking a character."""
        found: set[int] = set()
        waiting = list(here)
        while waiting:
            n = waiting.pop()
            if n in found:
                continue
            found.add(n)
            if n < len(self._steps) and (step := self._steps[n]).takes is None:
                if not step.asks:
                    waiting += [n + jump for jump in step.to]
                elif _holds(step.asks, before, after):
                    waiting.append(n + 1)
        return found


def _holds(asks: str, before: str, after: str) -> bool:
    if asks == "^":
        return not before
    if asks == "$":
        return not after
    is_edge = (before in _WORD) != (after in _WORD)
    return is_edge if asks == "b" else not is_edge


Part = list[Step]


class _Reader:
    """Reads an expression into steps; jumps are relative, so that parts can be repeated."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def steps(self) -> Part:
        part = self._choice()
        if self._at < len(self._text):
            raise ValueError("a ) too many")
        return part

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        c = self._peek()
        if not c:
            raise ValueError("the expression ends too early")
        self._at += 1
        return c

    def _choice(self) -> Part:
        part = self._sequence()
        while self._peek() == "|":
            self._at += 1
            other = self._sequence()
            part = _bounded([Step(to=(1, len(part) + 2)), *part, Step(to=(len(other) + 1,)), *other])
        return part

    def _sequence(self) -> Part:
        part: Part = []
        while self._peek() not in ("", "|", ")"):
            part = _bounded(part + self._repeated())
        return part

    def _repeated(self) -> Part:
        c = self._peek()
        if c in ("*", "+", "?") or _repeat(self._text, self._at):
            raise ValueError("nothing to repeat")
        part = self._atom()
        found = self._count()
        if found is None:
            return part
        if len(part) == 1 and part[0].asks:
            raise ValueError("nothing to repeat")
        if self._peek() == "?":
            self._at += 1
        if self._count() is not None:
            raise ValueError("nothing to repeat")
        return _repeat_part(part, *found)

    def _count(self) -> tuple[int, int | None] | None:
        """How often, at least and at most; None if nothing is said."""
        c = self._peek()
        if c in ("*", "+", "?") and c:
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[c]
        found = _repeat(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if most is not None and most < least:
            raise ValueError("numbers out of order")
        return least, most

    def _atom(self) -> Part:
        c = self._next()
        match c:
            case "^" | "$":
                return [Step(asks=c)]
            case ".":
                return [Step(takes=lambda c: c not in _LINE_ENDS)]
            case "(":
                return self._group()
            case "[":
                return [Step(takes=self._class())]
            case "\\":
                if self._peek() in ("b", "B"):
                    return [Step(asks=self._next())]
                return [Step(takes=_test(self._escaped()))]
            case _:
                return [Step(takes=c.__eq__)]

    def _group(self) -> Part:
        if self._peek() == "?":
            named = _named(self._text, self._at)
            if named is None:
                raise ValueError("this kind of group is not supported")
            self._at = named.end()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError("the groups are nested too deeply")
        part = self._choice()
        if self._peek() != ")":
            raise ValueError("a ( is not closed")
        self._at += 1
        self._depth -= 1
        return part

    def _escaped(self) -> str | Test:
        """What stands after a backslash: a character, or a set of them."""
        c = self._next()
        if c in _SETS:
            return _SETS[c]
        if c in "123456789":
            raise ValueError("backreferences are not supported")
        found = _coded(self._text, self._at - 1)
        if found is not None:
            self._at = found.end()
            return chr(int(found[1] or found[2], 16))
        return _CONTROLS.get(c, c)

    def _class(self) -> Test:
        is_negated = self._peek() == "^"
        self._at += is_negated
        tests = list(self._members())
        return lambda c: any(test(c) for test in tests) != is_negated

    def _members(self) -> Iterator[Test]:
        while (c := self._next()) != "]":
            first = self._member(c)
            if (
                isinstance(first, str)
                and self._peek() == "-"
                and self._text[self._at + 1 : self._at + 2] not in ("", "]")
            ):
                self._at += 1
                last = self._member(self._next())
                if isinstance(last, str):
                    if last < first:
                        raise ValueError("a range out of order")
                    yield _range(first, last)
                    continue
                yield "-".__eq__
                yield last
            yield _test(first)

    def _member(self, c: str) -> str | Test:
        if c != "\\":
            return c
        if self._peek() == "b":
            self._at += 1
            return "\b"
        return self._escaped()


def _test(found: str | Test) -> Test:
    return found.__eq__ if isinstance(found, str) else found


def _range(first: str, last: str) -> Test:
    return lambda c: first <= c <= last


def _bounded(part: Part) -> Part:
    if len(part) > MAX_STEPS:
        raise ValueError("the expression is too large")
    return part


def _repeat_part(part: Part, least: int, most: int | None) -> Part:
    if least * len(part) > MAX_STEPS or (most or 0) * (len(part) + 1) > MAX_STEPS:
        raise ValueError("the expression is too large")
    made = part * least
    if most is None:
        made += [Step(to=(1, len(part) + 2)), *part, Step(to=(-len(part) - 1,))]
    else:
        for left in range(most - least, 0, -1):
            made += [Step(to=(1, left * (len(part) + 1))), *part]
    return _bounded(made)
