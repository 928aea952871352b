"""The report follows its lake: new commits, lakes that cannot be read, conversations on request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.report.served import HOSTILE, SECONDS, Serve, Served, Stand
from tests.waiting import wait_until
from wirelake.report.refresh import MAX_CACHED
from wirelake.report.server import ReportServer


def test_a_page_without_a_policy_is_not_served() -> None:
    stand = Stand()
    stand.render = lambda report: "<p>hello"  # type: ignore[method-assign]
    with ReportServer(stand, ("127.0.0.1", 0)) as server, pytest.raises(ValueError, match="no Content-Security-Policy"):
        server.begin()


def test_a_new_commit_is_a_new_page(serve: Serve) -> None:
    served = serve()
    etag = served.ask("/")[0].headers["ETag"]
    served.source.commit = 2
    wait_until(lambda: json.loads(served.ask("/state")[1])["commit"] == 2)
    answer, body = served.ask("/", If_None_Match=etag)
    assert answer.status == 200 and b"<p>commit 2" in body and answer.headers["ETag"] != etag
    assert json.loads(served.ask("/report.json")[1])["about"]["commit"] == 2


def test_what_fails_is_told_once_and_tried_again_while_the_old_page_stays(serve: Serve) -> None:
    served = serve()
    served.source.fault = OSError("no file\nand more")
    served.source.commit = 2
    wait_until(lambda: served.told != [])
    assert served.told == ["the report cannot be renewed, the old one stays: no file"]
    assert b"<p>commit 1" in served.ask("/")[1]
    served.source.fault = None
    wait_until(lambda: len(served.told) == 2)
    assert served.told[1] == "the report is renewed again, with commit 2"
    assert b"<p>commit 2" in served.ask("/")[1]


def test_the_state_says_how_far_the_newest_traffic_is_behind(serve: Serve) -> None:
    stand = Stand()
    stand.until_us = time.time_ns() // 1000 - 90_000_000
    served = serve(stand)
    wait_until(lambda: served.state()["recent"] == 1)
    assert 90 <= served.state()["lag_seconds"] <= 90 + SECONDS and served.state()["behind"] == ["</script>"]
    assert b"</script>" not in served.ask("/state")[1] and b"</script>" not in served.ask("/recent.json")[1]


def test_the_last_minutes_are_tried_again_without_the_report(serve: Serve) -> None:
    served = serve()
    served.source.recent_fault = OSError("no file")
    served.source.commit = 2
    wait_until(lambda: served.state()["commit"] == 2 and served.told != [])
    assert served.told == ["the section of the last minutes cannot be renewed, the old one stays: no file"]
    served.source.recent_fault = None
    wait_until(lambda: served.state()["recent"] == 2 and len(served.told) == 2)


def test_the_first_report_is_tried_again_only_if_there_is_a_new_commit() -> None:
    stand = Stand()
    stand.fault = OSError("gone")
    with ReportServer(stand, ("127.0.0.1", 0)) as server, pytest.raises(OSError, match="gone"):
        server.begin()

    class Moving(Stand):
        def report(self, progress: Callable[[str], None]) -> dict[str, Any]:
            self.commit += 1
            if self.commit == 2:
                raise OSError("gone")
            return super().report(progress)

    with ReportServer(Moving(), ("127.0.0.1", 0)) as server:
        server.begin()
        assert server.follower.newest.number >= 2


def test_a_commit_while_a_report_is_made_is_not_missed(serve: Serve) -> None:
    """Also if the report calls itself that of the newer commit, and has only the rows of the older one."""

    class Overtaken(Stand):
        made = 0

        def report(self, progress: Callable[[str], None]) -> dict[str, Any]:
            self.made += 1
            if self.made == 1:
                self.commit = 2
            return {**super().report(progress), "made": self.made}

    served = serve(Overtaken())
    wait_until(lambda: json.loads(served.ask("/report.json")[1])["made"] == 2)


def test_the_end_leaves_a_report_in_the_middle() -> None:
    begun, gone_on = threading.Event(), threading.Event()

    class Long(Stand):
        def report(self, progress: Callable[[str], None]) -> dict[str, Any]:
            if self.commit == 2:
                begun.set()
                assert gone_on.wait(SECONDS)
            return super().report(progress)

    served = Served(Long())
    served.source.commit = 2
    assert begun.wait(SECONDS)
    ending = threading.Thread(target=served.end)
    ending.start()
    wait_until(served.server.follower._ended.is_set)
    gone_on.set()
    ending.join(SECONDS)
    assert served.server.follower.newest.number == 1 and served.told == []


def test_a_conversation_is_fetched_once_a_commit(serve: Serve) -> None:
    served = serve()
    for _ in range(3):
        answer, body = served.ask("/conversation?id=one")
        assert (answer.status, json.loads(body)) == (200, {"id": "one", "title": "</script>"})
        assert served.ask("/conversation?id=two")[0].status == 404
    assert served.source.asked == ["one", "two"]
    served.source.commit = 2
    served.source.known["two"] = {"id": "two"}
    wait_until(lambda: served.ask("/conversation?id=two")[0].status == 200)


def test_only_the_last_conversations_are_kept(serve: Serve) -> None:
    served = serve()
    for number in range(MAX_CACHED + 1):
        served.ask(f"/conversation?id={number}")
    served.ask("/conversation?id=0")
    served.ask(f"/conversation?id={MAX_CACHED}")
    assert served.source.asked.count("0") == 2 and served.source.asked.count(str(MAX_CACHED)) == 1


@pytest.mark.parametrize("id", HOSTILE)
def test_an_id_that_is_none_is_not_found(serve: Serve, id: str) -> None:
    served = serve()
    found = served.raw(
        f"GET /conversation?id={quote(id, safe='%')} HTTP/1.0\r\nHost: localhost:{served.server.port}\r\n\r\n".encode()
    )
    assert found.startswith(b"HTTP/1.1 404 ") and found.endswith(b"\r\n\r\nthere is no such conversation\n")
    assert b"Set-Cookie" not in found and served.told == []


def test_a_lake_that_cannot_be_read_is_told_and_asked_for_again(serve: Serve) -> None:
    served = serve()
    served.source.fault = OSError("no file")
    for _ in range(3):
        answer, body = served.ask("/conversation?id=one")
        assert answer.status == 503 and answer.headers["Retry-After"] and b"no file" not in body
    assert served.source.asked == ["one"] * 6
    assert served.told == ["a conversation cannot be read: no file"]
    served.source.fault = None
    assert served.ask("/conversation?id=one")[0].status == 200
