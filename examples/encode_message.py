"""Make a message, write it, read it back, change it.

python examples/encode_message.py
"""

from __future__ import annotations

import msgspec

from wirelake import decode, encode
from wirelake.errors import EncodeError
from wirelake.protocols.casual import NULL_XID, Buffer, Parent, Service, ServiceCallRequest


def main() -> None:
    call = ServiceCallRequest(
        correlation=bytes.fromhex("000102030405060708090a0b0c0d0e10"),
        execution=bytes.fromhex("101112131415161718191a1b1c1d1e1f"),
        service=Service("echo", timeout=2_500_000),
        parent=Parent(""),
        xid=NULL_XID,
        flags=0,
        buffer=Buffer(".json/", b"[1]"),
    )
    frame = encode(call)
    print(len(frame), "bytes:", frame.hex())

    again = decode("casual", frame)
    print("the same:", again == call, "and the same bytes:", encode(again) == frame)

    changed = msgspec.structs.replace(again, service=Service("echo", timeout=0))
    print("timeout:", decode("casual", encode(changed)).service.timeout)

    try:
        encode(msgspec.structs.replace(call, execution=b"too short"))
    except EncodeError as error:
        print(error)


if __name__ == "__main__":
    main()
