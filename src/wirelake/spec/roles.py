"""Where the fields are that have roles: the paths of their columns, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import nodes as n

Path = tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where a role is: a path of columns, and the messages (by their place in the protocol) whose role it is."""

    path: Path
    messages: tuple[int, ...]
    unit: str = ""


def places(protocol: n.Protocol) -> dict[n.Role, tuple[Place, ...]]:
    """Return the places of each role of a protocol."""
    by_role: dict[n.Role, dict[tuple[Path, str], list[int]]] = {}
    for index, cls in enumerate(protocol.messages):
        for *above, field in with_roles(cls):
            assert field.role is not None
            path = tuple(step.column or step.key for step in (*above, field))
            by_role.setdefault(field.role, {}).setdefault((path, field.unit), []).append(index)
    return {
        role: tuple(Place(path, tuple(messages), unit) for (path, unit), messages in by_path.items())
        for role, by_path in by_role.items()
    }


def field_with(protocol: n.Protocol, message: str, role: n.Role) -> n.Field | None:
    """Return the field of a message that has this role."""
    named = (cls for cls in protocol.messages if cls.__message__["name"] == message)
    fields = (chain[-1] for cls in named for chain in with_roles(cls))
    return next((field for field in fields if field.role == role), None)


def label(protocol: n.Protocol, message: str, role: n.Role, value: str) -> str:
    """Return the declared name of a value of the field with this role; the value itself if it has none."""
    field = field_with(protocol, message, role)
    wire = field.wire.wire if field is not None and isinstance(field.wire, n.Tag) else field and field.wire
    labels = getattr(wire, "labels", None)
    try:
        return labels.names.get(int(value), value) if labels is not None else value
    except ValueError:
        return value


def with_roles(cls: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the fields that have roles, each behind the structures and tag tables that it stands in."""
    yield from ((made,) for made in cls.__derived_fields__ if made.role is not None)
    for field in cls.__wire_fields__:
        if field.role is not None:
            yield (field,)
        elif isinstance(field.wire, n.Nested | n.Tags):
            yield from ((field, *inner) for inner in with_roles(field.wire.struct))
