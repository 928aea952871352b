"""The layout of tap files (docs/tap-format.md), for those who read and who write them."""

from __future__ import annotations

import struct

MAGIC = b"\x89WTAP\r\n\x1a"
VERSION = 1
FILE_HEAD = struct.Struct("<8sHHI16sq")
"""Magic, version, nothing, number of the file in its set, set, time of its first record."""
FILE_HEAD_BYTES = FILE_HEAD.size + 4
"""With its own CRC-32, with which the CRC-32 of every record begins."""
RECORD_HEAD = struct.Struct("<IHBBI")
"""Behind the CRC-32: length of the body, mark, kind, detail, number of the connection."""
MARK = 0x7EA9
MAX_BODY = 1 << 20
OPEN, DATA, CLOSE, TIME = 1, 2, 3, 4
OPEN_BODY = struct.Struct("<qqqHHBBB")
"""Time, offsets to server and to client, ports of client and server, lengths of client, server, protocol."""
CLOSE_BODY = struct.Struct("<qqq")
"""Time, offsets to server and to client."""
TIME_BODY = struct.Struct("<q")
"""Until when nothing came."""
DATA_HEAD = struct.Struct("<IHBBIqq")
"""Head of a data record and of its body: time, offset."""
MAX_DATA = MAX_BODY - 16
BEGINS, GOES_ON = 0, 1
"""Details of an open record: the beginning of the connection was seen, or it goes on here."""
ENDED = ("closed", "reset")
"""Details of a close record."""
