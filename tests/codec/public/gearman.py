"""Gearman: packets with a magic for each direction, and the administrator's lines."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching

Z = s.text(b"\0")
TYPE_AND_SIZE = (s.Code("type", s.be.u32), s.Size("size", s.be.u32, counts="after", most=1 << 20))


class CanDo(s.Message, frame="to_server", code=1, kind="event"):
    function: str = s.field(s.rest_text, "what the worker can do", role="address")


class SubmitJob(s.Message, frame="to_server", code=7, kind="request", answer="job_created", sent_by="client"):
    function: str = s.field(Z, "which function", role="address")
    unique: str = s.field(Z, "the client's id")
    work: bytes = s.field(s.rest, "argument", role="payload")


class JobCreated(s.Message, frame="to_client", code=8, kind="response", sent_by="server"):
    handle: str = s.field(s.rest_text, "the job")


class GrabJob(s.Message, frame="to_server", code=9, kind="request", answer=("job_assign", "no_job")): ...


class NoJob(s.Message, frame="to_client", code=10, kind="response", sent_by="server"): ...


class JobAssign(s.Message, frame="to_client", code=11, kind="response", sent_by="server"):
    handle: str = s.field(Z, "the job")
    function: str = s.field(Z, "which function", role="address")
    work: bytes = s.field(s.rest, "argument", role="payload")


class WorkComplete(s.Message, frame="to_server", code=13, kind="event"):
    handle: str = s.field(Z, "the job")
    result: bytes = s.field(s.rest, "what it gave", role="payload")


class AdminLine(s.Message, code=1000, kind="event"):
    line: str = s.field(s.rest_text, "status, workers, version ...")


PROTOCOL = s.declare(
    s.Protocol(
        "gearman",
        "Gearman",
        s.Frame((s.Until(b"\n", 4096),)),
        s.messages_in(globals()),
        ports={"tcp": 4730},
        frames={
            "to_server": s.Frame((s.Magic(b"\0REQ"), *TYPE_AND_SIZE)),
            "to_client": s.Frame((s.Magic(b"\0RES"), *TYPE_AND_SIZE)),
        },
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
