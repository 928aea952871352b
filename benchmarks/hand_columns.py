"""Many messages at a time, written by hand: a loop over the buffer fills lists, and Arrow makes arrays of them.

Each function takes a buffer of whole frames and gives the batch that ``wirelake.columnar.decode`` gives for it: the
same default columns, also those that only other messages fill. The checks are those of ``hand_records``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from wirelake.columnar import schema
from wirelake.protocols import casual, ceda, dsa, load, mb

from . import hand_records as by_record
from .hand_records import Malformed


def _batch(protocol: str, rows: int, message: str, code: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """The table's columns in order; those that are not given are null."""
    columns["message"] = pa.repeat(pa.scalar(message), rows)
    columns["code"] = pa.repeat(pa.scalar(code, pa.int32()), rows)
    kinds = schema(load(protocol))
    return pa.RecordBatch.from_arrays(
        [columns[kind.name] if kind.name in columns else pa.nulls(rows, kind.type) for kind in kinds], schema=kinds
    )


def _struct(protocol: str, column: str, rows: int, children: dict[str, pa.Array]) -> pa.Array:
    """A structure with these children; others are null."""
    fields = list(schema(load(protocol)).field(column).type)
    return pa.StructArray.from_arrays(
        [children[f.name] if f.name in children else pa.nulls(rows, f.type) for f in fields], fields=fields
    )


# --- casual: service_call_request


def read_casual(buffer: bytes) -> pa.RecordBatch:
    unpack_head, unpack_one, unpack_two = by_record.CASUAL_HEAD, by_record.I64, by_record.I64_I64
    offsets, lengths, correlations, executions = [], [], [], []
    names, timeouts, parents, formats, gtrids, bquals = [], [], [], [], [], []
    all_flags, kinds, payloads, notes = [], [], [], []
    at, size_of_buffer = 0, len(buffer)
    while at < size_of_buffer:
        if at + 56 > size_of_buffer:
            raise Malformed("too short")
        code, correlation, size, execution, length = unpack_head(buffer, at)
        if code != 3100:
            raise Malformed("type")
        end = at + 32 + size
        if size > casual.MAX_PAYLOAD or end > size_of_buffer:
            raise Malformed("size")
        start = at + 56
        stop = start + length
        if length < 0 or stop + 16 > end:
            raise Malformed("service.name")
        name = buffer[start:stop].decode()
        timeout, length = unpack_two(buffer, stop)
        start = stop + 16
        stop = start + length
        if length < 0 or stop + 8 > end:
            raise Malformed("parent.name")
        parent = buffer[start:stop].decode()
        (form,) = unpack_one(buffer, stop)
        start = stop + 8
        gtrid = bqual = b""
        if form not in (-1, 0):
            if start + 16 > end:
                raise Malformed("xid")
            gtrid_length, bqual_length = unpack_two(buffer, start)
            start += 16
            if gtrid_length < 0 or bqual_length < 0 or gtrid_length + bqual_length > 128:
                raise Malformed("xid")
            middle = start + gtrid_length
            stop = middle + bqual_length
            if stop > end:
                raise Malformed("xid")
            gtrid, bqual = buffer[start:middle], buffer[middle:stop]
            start = stop
        if start + 16 > end:
            raise Malformed("flags")
        flags, length = unpack_two(buffer, start)
        start += 16
        stop = start + length
        if length < 0 or stop + 8 > end:
            raise Malformed("buffer.type")
        kind = buffer[start:stop].decode()
        (length,) = unpack_one(buffer, stop)
        start = stop + 8
        stop = start + length
        if length < 0 or stop > end:
            raise Malformed("buffer.payload")
        note = None
        if stop != end:
            if buffer[stop:end] != by_record.JAVA_PADDING:
                raise Malformed("leftover bytes")
            note = ["java_padding"]
        offsets.append(at)
        lengths.append(end - at)
        notes.append(note)
        correlations.append(correlation)
        executions.append(execution)
        names.append(name)
        timeouts.append(timeout)
        parents.append(parent)
        formats.append(form)
        gtrids.append(gtrid)
        bquals.append(bqual)
        all_flags.append(flags)
        kinds.append(kind)
        payloads.append(buffer[start:stop])
        at = end
    rows = len(offsets)
    service = {"name": pa.array(names, pa.string()), "timeout": pa.array(timeouts, pa.int64())}
    xid = {
        "format": pa.array(formats, pa.int64()),
        "gtrid": pa.array(gtrids, pa.binary()),
        "bqual": pa.array(bquals, pa.binary()),
    }
    data = {"type": pa.array(kinds, pa.string()), "payload": pa.array(payloads, pa.binary())}
    columns = {
        "offset": pa.array(offsets, pa.int64()),
        "length": pa.array(lengths, pa.int32()),
        "notes": pa.array(notes, pa.list_(pa.string())),
        "correlation": pa.array(correlations, pa.binary()),
        "execution": pa.array(executions, pa.binary()),
        "service": _struct("casual", "service", rows, service),
        "parent": _struct("casual", "parent", rows, {"name": pa.array(parents, pa.string())}),
        "xid": _struct("casual", "xid", rows, xid),
        "flags": pa.array(all_flags, pa.int64()),
        "buffer": _struct("casual", "buffer", rows, data),
    }
    return _batch("casual", rows, "service_call_request", 3100, columns)


# --- dsa: subscribe_response


def read_dsa(buffer: bytes) -> pa.RecordBatch:
    unpack_head, unpack_u16, unpack_i32 = by_record.DSA_HEAD, by_record.U16, by_record.I32
    unpack_value = by_record.unpack_value
    offsets, totals, heads, request_ids, ack_ids, bodies, presents, closes = [], [], [], [], [], [], [], []
    statuses, sequences, pages, sources = [], [], [], []
    keys: list[str] = []
    key_offsets = [0]
    at, size_of_buffer = 0, len(buffer)
    while at < size_of_buffer:
        if at + dsa.LONG_HEAD > size_of_buffer:
            raise Malformed("too short")
        total, head, method, request_id, ack_id = unpack_head(buffer, at)
        end = at + total
        if total > dsa.MAX_TOTAL or end > size_of_buffer:
            raise Malformed("total_length")
        if not dsa.LONG_HEAD <= head <= dsa.MAX_HEADER or head > total or total - head > dsa.MAX_BODY:
            raise Malformed("header_length")
        if method != 0x81:
            raise Malformed("method")
        if not 1 <= request_id <= dsa.MAX_REQUEST_ID:
            raise Malformed("request_id")
        status = sequence_id = page_id = source_path = None
        p = at + dsa.LONG_HEAD
        head_end = at + head
        while p < head_end:
            code = buffer[p]
            p += 1
            if code == 0x00:
                if p >= head_end:
                    raise Malformed("headers.status")
                status = buffer[p]
                p += 1
                keys.append("status")
            elif code == 0x01:
                if p + 4 > head_end:
                    raise Malformed("headers.sequence_id")
                (sequence_id,) = unpack_i32(buffer, p)
                p += 4
                keys.append("sequence_id")
            elif code == 0x02:
                if p + 4 > head_end:
                    raise Malformed("headers.page_id")
                (page_id,) = unpack_i32(buffer, p)
                p += 4
                keys.append("page_id")
            elif code == 0x81:
                if p + 2 > head_end:
                    raise Malformed("headers.source_path")
                (length,) = unpack_u16(buffer, p)
                p += 2
                if length > dsa.MAX_STRING or p + length > head_end:
                    raise Malformed("headers.source_path")
                source_path = buffer[p : p + length].decode()
                p += length
                keys.append("source_path")
            else:
                raise Malformed("this header is unknown, or not allowed on a subscribe response")
        present = None
        if head_end < end and not page_id:
            if head_end + 2 > end:
                raise Malformed("value_meta")
            (length,) = unpack_u16(buffer, head_end)
            start = head_end + 2
            stop = start + length
            if stop > end:
                raise Malformed("value_meta")
            if length and not isinstance(unpack_value(buffer[start:stop]), dict):
                raise Malformed("value_meta")
            present = stop < end
            if present:
                unpack_value(buffer[stop:end])
        offsets.append(at)
        totals.append(total)
        heads.append(head)
        request_ids.append(request_id)
        ack_ids.append(ack_id)
        statuses.append(status)
        sequences.append(sequence_id)
        pages.append(page_id)
        sources.append(source_path)
        key_offsets.append(len(keys))
        bodies.append(buffer[head_end:end])
        presents.append(present)
        closes.append((status or 0) >= dsa.CLOSED_FROM)
        at = end
    rows = len(offsets)
    lengths = pa.array(totals, pa.int32())
    header_lengths = pa.array(heads, pa.int32())
    headers = {
        "status": pa.array(statuses, pa.int16()),
        "sequence_id": pa.array(sequences, pa.int32()),
        "page_id": pa.array(pages, pa.int32()),
        "source_path": pa.array(sources, pa.string()),
    }
    columns = {
        "offset": pa.array(offsets, pa.int64()),
        "length": lengths,
        "request_id": pa.array(request_ids, pa.int64()),
        "ack_id": pa.array(ack_ids, pa.int64()),
        "headers": _struct("dsa", "headers", rows, headers),
        "body": pa.array(bodies, pa.binary()),
        "total_length": lengths,
        "header_length": header_lengths,
        "header_order": pa.ListArray.from_arrays(pa.array(key_offsets, pa.int32()), pa.array(keys, pa.string())),
        "body_length": pa.array([total - head for total, head in zip(totals, heads, strict=True)], pa.int32()),
        "value_present": pa.array(presents, pa.bool_()),
        "closed": pa.array(closes, pa.bool_()),
    }
    return _batch("dsa", rows, "subscribe_response", 0x81, columns)


# --- mb: publish, with its length before it


def read_mb(buffer: bytes) -> pa.RecordBatch:
    unpack_size, match_line = by_record.U32, by_record.MB_LINE
    offsets, lengths, topics, versions, request_ids, parents, payloads = [], [], [], [], [], [], []
    at, size_of_buffer = 0, len(buffer)
    while at < size_of_buffer:
        if at + 4 > size_of_buffer:
            raise Malformed("too short")
        (size,) = unpack_size(buffer, at)
        start = at + 4
        end = start + size
        if size > mb.MAX_FRAME or end > size_of_buffer:
            raise Malformed("length")
        line = match_line(buffer, start, end)
        if line is None:
            raise Malformed("header line")
        stop = line.end()
        if stop - start > mb.MAX_HEADER_WINDOW or end - stop > mb.MAX_PAYLOAD:
            raise Malformed("too long")
        topic, version, major, minor, patch, request_id, parent_request_id = line.groups()
        if len(topic) > 255 or len(version) > 20:
            raise Malformed("topic or version")
        if len(version) > 15 and max(int(major), int(minor), int(patch)) > mb.MAX_VERSION_NUMBER:
            raise Malformed("version")
        offsets.append(at)
        lengths.append(end - at)
        topics.append(topic)
        versions.append(version)
        request_ids.append(request_id)
        parents.append(parent_request_id)
        payloads.append(buffer[stop:end])
        at = end
    rows = len(offsets)
    columns = {
        "offset": pa.array(offsets, pa.int64()),
        "length": pa.array(lengths, pa.int32()),
        "action": pa.repeat(pa.scalar("publish"), rows),
        # The pattern lets only ASCII through, so these bytes need no decoding.
        "topic": pa.array(topics, pa.string()),
        "version": pa.array(versions, pa.string()),
        "request_id": pa.array(request_ids, pa.string()),
        "parent_request_id": pa.array(parents, pa.string()),
        "payload": pa.array(payloads, pa.binary()),
    }
    return _batch("mb", rows, "publish", 1, columns)


# --- ceda: publish


def read_ceda(buffer: bytes) -> pa.RecordBatch:
    unpack_u16, numbers = by_record.U16, by_record.CEDA_NUMBERS
    offsets, lengths, sizes, topics, bodies = [], [], [], [], []
    fids: list[int] = []
    kinds: list[str] = []
    longs: list[int | None] = []
    doubles: list[float | None] = []
    texts: list[str | None] = []
    blobs: list[bytes | None] = []
    cell_offsets = [0]
    at, size_of_buffer = 0, len(buffer)
    while at < size_of_buffer:
        if at + 3 > size_of_buffer or buffer[at] != 0x82:
            raise Malformed("magic")
        size, p = buffer[at + 1], at + 2
        if size == ceda.EXTENDED:
            if at + 5 > size_of_buffer:
                raise Malformed("payload_length")
            (size,) = unpack_u16(buffer, p)
            if size < ceda.EXTENDED:
                raise Malformed("payload_length")
            p += 2
        elif not 1 <= size < ceda.EXTENDED:
            raise Malformed("payload_length")
        end = p + size
        if end > size_of_buffer:
            raise Malformed("payload_length")
        if buffer[p] != 0x61:
            raise Malformed("type")
        if p + 2 > end:
            raise Malformed("topic")
        start = p + 2
        p = start + buffer[p + 1]
        if p > end:
            raise Malformed("topic")
        topic = buffer[start:p].decode()
        body = buffer[p:end]
        while p < end:
            if p + 2 > end:
                raise Malformed("record")
            (head,) = unpack_u16(buffer, p)
            p += 2
            fid = head >> 4
            if fid > by_record.CEDA_LAST_ID:
                raise Malformed("record")
            kind = head >> 1 & 7
            number = double = text = blob = None
            if kind in numbers:
                name, width, unpack = numbers[kind]
                if p + width > end:
                    raise Malformed("record")
                (value,) = unpack(buffer, p)
                p += width
                if kind < 4:
                    number = value
                else:
                    double = value
            elif kind == 0:
                name = "NONE"
            else:
                if p + 2 > end:
                    raise Malformed("record")
                (length,) = unpack_u16(buffer, p)
                start = p + 2
                p = start + length
                if length > ceda.MAX_CELL_BYTES or p > end:
                    raise Malformed("record")
                if kind == by_record.CEDA_STRING:
                    name, text = "STRING", buffer[start:p].decode()
                else:
                    name, blob = "BYTES", buffer[start:p]
            fids.append(fid)
            kinds.append(name)
            longs.append(number)
            doubles.append(double)
            texts.append(text)
            blobs.append(blob)
        offsets.append(at)
        lengths.append(end - at)
        sizes.append(size)
        topics.append(topic)
        bodies.append(body)
        cell_offsets.append(len(fids))
        at = end
    rows = len(offsets)
    record = schema(load("ceda")).field("record").type
    cells = pa.StructArray.from_arrays(
        [
            pa.array(fids, pa.int32()),
            pa.array(kinds, pa.string()),
            pa.array(longs, pa.int64()),
            pa.array(doubles, pa.float64()),
            pa.array(texts, pa.string()),
            pa.array(blobs, pa.binary()),
        ],
        fields=list(record.value_type),
    )
    columns = {
        "offset": pa.array(offsets, pa.int64()),
        "length": pa.array(lengths, pa.int32()),
        "dialect": pa.repeat(pa.scalar("ceda4"), rows),
        "payload_length": pa.array(sizes, pa.int32()),
        "extended_length": pa.array([size >= ceda.EXTENDED for size in sizes], pa.bool_()),
        "masked": pa.repeat(pa.scalar(False), rows),
        "topic": pa.array(topics, pa.string()),
        "body_hex": pa.array(bodies, pa.binary()),
        "record": pa.ListArray.from_arrays(pa.array(cell_offsets, pa.int32()), cells),
    }
    return _batch("ceda", rows, "publish", 0x61, columns)


READERS: dict[str, Callable[[bytes], Any]] = {
    "casual": read_casual,
    "dsa": read_dsa,
    "mb": read_mb,
    "ceda": read_ceda,
}
