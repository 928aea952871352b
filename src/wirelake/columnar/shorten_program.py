"""A program -> a shorter one that does the same.

Where few columns are wanted, most fields need only be passed over. Neighbours are joined where nothing jumps between
them. All is checked as before: a field that does not fit declines the frame, wherever that is noticed.
"""

from __future__ import annotations

from ..kernels import columns as k

Op = list[int]
NO_SLOT = -1
TARGET = {
    k.JUMP: 2, k.JUMP_IN: 5, k.HEAD_REACHES: 3, k.IF_REG: 3, k.IF_EMPTY: 2, k.IF_LEFT: 2, k.LIST: 6, k.WHEN: 4,
}  # fmt: skip
"""Which operand of an operation says where to go on."""
SKIP_OPERAND = 7
"""Which operand of INT and RUN says how many bytes to pass over first."""


def shorten(ops: list[Op], entries: list[int]) -> tuple[list[Op], list[int]]:
    """The shorter program, and where the entries are in it."""
    targets = {op[TARGET[op[0]]] for op in ops if op[0] in TARGET} | set(entries)
    made: list[Op] = []
    place: list[int] = []
    while len(place) < len(ops):
        i = len(place)
        here = len(made)
        many = _pair(ops[i : i + 5]) if targets.isdisjoint(range(i + 1, i + 5)) else None
        joined = _joined(made[-1], ops[i]) if made and i not in targets else None
        if many is not None:
            made.append(many)
            place += [here] * 5
        elif ops[i][0] == k.JUMP and ops[i][2] == i + 1:
            place.append(here)
        elif joined is not None:
            made[-1] = joined
            place.append(here - 1)
        else:
            made.append(_plain(ops[i]))
            place.append(here)
    for op in made:
        if op[0] in TARGET:
            op[TARGET[op[0]]] = place[op[TARGET[op[0]]]]
    return made, [place[entry] for entry in entries]


def _plain(op: Op) -> Op:
    """Fields that are neither wanted nor looked at are passed over."""
    if op[0] == k.FIXED and op[1] == NO_SLOT:
        return [k.SKIP, NO_SLOT, op[2], 0, 0, 0, 0, 0]
    if op[0] == k.INT and op[1] == NO_SLOT and not op[3] & k.RANGED and op[6] < 0:
        return [k.SKIP, NO_SLOT, op[2], 0, 0, 0, 0, 0]
    if op[0] == k.BITS and op[1] == NO_SLOT and not op[3] & k.RANGED and op[6] < 0:
        return [k.SKIP, NO_SLOT, op[2] >> 24, 0, 0, 0, 0, 0]
    return list(op)


def _joined(before: Op, op: Op) -> Op | None:
    """One operation for two, if there is one."""
    op = _plain(op)
    if before[0] == k.SKIP and op[0] == k.SKIP:
        return [k.SKIP, NO_SLOT, before[2] + op[2], 0, 0, 0, 0, 0]
    if before[0] == k.SKIP and op[0] in (k.INT, k.RUN) and op[SKIP_OPERAND] == 0:
        return [*op[:SKIP_OPERAND], before[2]]
    return None


def _pair(ops: list[Op]) -> Op | None:
    """One operation for two lengths with a limit on their sum, and the runs of bytes that they are the lengths of."""
    if [op[0] for op in ops] != [k.INT, k.INT, k.SUM_MOST, k.RUN_REG, k.RUN_REG]:
        return None
    one, other, limit, *runs = ops
    registers = [one[6], other[6]]
    is_plain = one[1:6] == other[1:6] and one[1] == NO_SLOT and not one[3] & k.RANGED
    if is_plain and limit[2:4] == registers and [run[2] for run in runs] == registers and all(map(_is_unseen, runs)):
        return [k.PAIR, NO_SLOT, one[2], one[3], limit[4], 0, 0, 0]
    return None


def _is_unseen(run: Op) -> bool:
    """Whether a run of bytes is neither wanted nor has a rule of its own."""
    return run[1] == NO_SLOT and run[4] == k.RAW and run[5] == 0 and run[6] == k.NO_LIMIT
