"""A broker and scripted links: handshake, routing, merging, offline and online again, permissions."""

from __future__ import annotations

from tests.live.dsa.broker_play import BROKER, Play, pack
from wirelake.live.dsa.wire import write_pair
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers


def test_two_links_meet_through_the_broker() -> None:
    play = Play()
    plant, reader = play.link("plant"), play.link("reader", is_responder=False)
    assert plant.welcome is not None and plant.welcome.path == "downstream/plant"
    assert plant.welcome.dsid == BROKER.dsid
    assert reader.welcome is not None and reader.welcome.path == ""
    listing = reader.list("downstream/plant")
    (asked,) = plant.hear()
    assert (asked.method, asked.headers.target_path) == (p.LIST, "")
    body = write_pair(b"$is", pack("unit")) + write_pair(b"temp", pack({"$type": "number"}))
    plant.say(p.LIST_R, asked.request_id, Headers(status=0, refreshed=True, pub_path="pub"), body)
    (listed,) = reader.hear(listing)
    assert listed.headers.refreshed and listed.headers.pub_path == "downstream/plant/pub" and listed.status == 0
    reader.heard.append(listed)
    assert reader.entries(listing) == {"$is": "unit", "temp": {"$type": "number"}, "$$dsid": plant.dsid}
    value = reader.subscribe("downstream/plant/temp")
    (asked,) = plant.hear()
    assert (asked.method, asked.headers.target_path) == (p.SUB, "temp")
    plant.update(asked, 21.5)
    assert reader.values(value) == [(0, 21.5)]
    reader.say(p.CLOSE, value)
    (closed,) = plant.hear()
    assert (closed.method, closed.request_id) == (p.CLOSE, asked.request_id)
