"""Keys, dsIds, tokens and the four handshake messages: the published example, and what must be refused."""

from __future__ import annotations

import random

import pytest

from wirelake.live.dsa import wire
from wirelake.live.dsa.handshake import (
    ClientHandshake,
    HandshakeRefused,
    Identity,
    ServerHandshake,
    dsid_of,
    hash_token,
    is_token,
    make_token,
)
from wirelake.live.dsa.wire import Received
from wirelake.protocols import dsa as p

CLIENT_KEY = bytes.fromhex("55e1bcad391b655f97fe3ba2f8e3031c9b5828b16793b7da538c2787c3a4dc59")
BROKER_KEY = bytes.fromhex("82848ef9d9204097a98a8c393e06aac9cb9a1ba3cdabf772f4ca7e6899b9f277")
CLIENT_PUBLIC = bytes.fromhex(
    "0415caf59c92efecb9253ea43912b419941fdb59a23d5d1289027128bf3d6ee4cb"
    "86fbe251b675a8d9bd991a65caa1bb23f8a8e0dd4eb0974f6b1eaa3436cec0e9"
)
BROKER_PUBLIC = bytes.fromhex(
    "04f9e64edcec5ea0a645bd034e46ff209dd9fb21d8aba74a5531dc6dcbea28d696"
    "c6c9386d924ebc2f48092a1d6c8b2ca907005cca7e8d2a58783b8a765d8eb29d"
)
CLIENT_SALT = bytes.fromhex("c4ca4238a0b923820dcc509a6f75849bc81e728d9d4c2f636f067f89cc14862c")
BROKER_SALT = bytes.fromhex("eccbc87e4b5ce2fe28308fd9f2a7baf3a87ff679a2f3e71d9181a67b7542122c")
CLIENT_AUTH = bytes.fromhex("f58c10e212a82bf327a020679c424fc63e852633a53253119df74114fac8b2ba")
BROKER_AUTH = bytes.fromhex("e709059f1ebb84cfb8c34d53fdba7fbf20b1fe3dff8c343050d2b5c7c62be85a")
SECRET = bytes.fromhex("5f67b2cb3a0906afdcf5175ed9316762a8e18ce26053e8c51b760c489343d0d1")
CLIENT_DSID = "mylink-TTDXtL-U_NQ2sgFRU5w0HrZVib2D-O4CxXQrKk4hUsI"
BROKER_DSID = "broker-g675gaSQogzMxjJFvL7HsCbyS8B0Ly2_Abhkw_-g4iI"
F2 = bytes.fromhex(
    "3f000000 0700 f2 1300 73616d706c655f746f6b656e5f737472696e67 01 0000"
    "f58c10e212a82bf327a020679c424fc63e852633a53253119df74114fac8b2ba"
)


def frame(method: int, body: bytes) -> Received:
    found: list[Received] = []
    wire.Reader().read(wire.control(method, body), found.append)
    return found[0]


def client() -> Identity:
    return Identity(CLIENT_KEY, "mylink-")


def broker() -> Identity:
    return Identity(BROKER_KEY, "broker-")


def pair(chance: random.Random | None = None, **more: object) -> tuple[ClientHandshake, ServerHandshake]:
    chance = chance or random.Random(1)
    return (
        ClientHandshake(client(), chance.randbytes(32), **more),  # type: ignore[arg-type]
        ServerHandshake(broker(), chance.randbytes(32)),
    )


def test_the_published_example_gives_the_published_keys_ids_and_secret() -> None:
    assert client().public_key == CLIENT_PUBLIC
    assert broker().public_key == BROKER_PUBLIC
    assert client().dsid == CLIENT_DSID
    assert broker().dsid == BROKER_DSID
    assert client().share(BROKER_PUBLIC) == broker().share(CLIENT_PUBLIC) == SECRET


def test_the_published_example_is_written_byte_for_byte() -> None:
    ours, theirs = ClientHandshake(client(), CLIENT_SALT), ServerHandshake(broker(), BROKER_SALT)
    f0 = wire.control(p.F0, ours.hello())
    f1 = wire.control(p.F1, theirs.hello(frame(p.F0, ours.hello())))
    assert (len(f0), len(f1)) == (158, 156)
    answer = ours.answer(frame(p.F1, f1[7:]))
    # The example's token travels as it is, as Java sends it; ours would be hashed.
    sent = wire.read_body(frame(p.F2, answer))
    assert sent.auth == CLIENT_AUTH
    f2 = wire.control(
        p.F2, wire.write_body(p.HandshakeF2(token="sample_token_string", is_responder=True, path="", auth=sent.auth))
    )
    assert f2 == F2
    claim = theirs.check(frame(p.F2, F2[7:]))
    assert (claim.dsid, claim.token, claim.is_responder, claim.path) == (CLIENT_DSID, "sample_token_string", True, "")
    f3 = wire.control(p.F3, theirs.welcome("/downstream/mlink1"))
    assert len(f3) == 60
    assert f3[-32:] == BROKER_AUTH
    welcome = ours.finish(frame(p.F3, f3[7:]))
    assert (welcome.dsid, welcome.allow_requester, welcome.path) == (BROKER_DSID, True, "/downstream/mlink1")


def test_a_handshake_of_ours_succeeds_with_a_token() -> None:
    token = make_token(random.Random(3))
    ours, theirs = pair(token=token, is_responder=False)
    answer = ours.answer(frame(p.F1, theirs.hello(frame(p.F0, ours.hello()))))
    claim = theirs.check(frame(p.F2, answer))
    assert is_token(claim.token, claim.dsid, token)
    assert not is_token(claim.token, claim.dsid, make_token(random.Random(4)))
    assert not claim.is_responder
    assert len(claim.token) == 59
    assert claim.token.startswith(token[:16])
    assert token[16:] not in claim.token
    assert ours.finish(frame(p.F3, theirs.welcome("downstream/mylink"))).path == "downstream/mylink"


def test_a_token_without_a_secret_part_does_not_travel() -> None:
    assert hash_token(CLIENT_DSID, "x" * 16) == ""


def test_a_wrong_proof_is_refused_by_the_server() -> None:
    ours, theirs = pair()
    answer = ours.answer(frame(p.F1, theirs.hello(frame(p.F0, ours.hello()))))
    with pytest.raises(HandshakeRefused, match="could not prove") as refused:
        theirs.check(frame(p.F2, answer[:-1] + bytes((answer[-1] ^ 1,))))
    assert refused.value.status == 0xC9


def test_a_proof_that_was_good_on_another_connection_is_refused() -> None:
    ours, theirs = pair()
    hello = ours.hello()
    recorded = ours.answer(frame(p.F1, theirs.hello(frame(p.F0, hello))))
    later = ServerHandshake(broker(), b"another salt" + bytes(20))
    later.hello(frame(p.F0, hello))
    with pytest.raises(HandshakeRefused, match="could not prove"):
        later.check(frame(p.F2, recorded))


def test_a_wrong_proof_is_refused_by_the_client() -> None:
    ours, theirs = pair()
    ours.answer(frame(p.F1, theirs.hello(frame(p.F0, ours.hello()))))
    welcome = theirs.welcome("downstream/x")
    with pytest.raises(HandshakeRefused, match="could not prove"):
        ours.finish(frame(p.F3, welcome[:-32] + bytes(32)))


def test_a_dsid_of_another_key_is_refused_by_both_sides() -> None:
    other = dsid_of("mylink-", BROKER_PUBLIC)
    _, theirs = pair()
    hello = p.HandshakeF0(version=(2, 0), dsid=other, public_key=CLIENT_PUBLIC, salt=bytes(32))
    with pytest.raises(HandshakeRefused, match="does not belong"):
        theirs.hello(frame(p.F0, wire.write_body(hello)))
    ours, _ = pair()
    answer = p.HandshakeF1(dsid=CLIENT_DSID, public_key=BROKER_PUBLIC, salt=bytes(32))
    with pytest.raises(HandshakeRefused, match="does not belong"):
        ours.answer(frame(p.F1, wire.write_body(answer)))


@pytest.mark.parametrize(
    "key",
    [
        b"\x04" + bytes(64),
        CLIENT_PUBLIC[:-1] + bytes((CLIENT_PUBLIC[-1] ^ 1,)),
        b"\x02" + CLIENT_PUBLIC[1:33] + bytes(32),
        b"\x04" + b"\xff" * 64,
        bytes(65),
    ],
)
def test_a_point_that_is_not_on_the_curve_is_refused(key: bytes) -> None:
    _, theirs = pair()
    hello = p.HandshakeF0(version=(2, 0), dsid=dsid_of("x-", key), public_key=key, salt=bytes(32))
    with pytest.raises(HandshakeRefused, match="not a point"):
        theirs.hello(frame(p.F0, wire.write_body(hello)))


def test_our_own_key_shown_by_a_peer_is_refused() -> None:
    ours, _ = pair()
    mirror = p.HandshakeF1(dsid=CLIENT_DSID, public_key=CLIENT_PUBLIC, salt=bytes(32))
    with pytest.raises(HandshakeRefused, match="our own"):
        ours.answer(frame(p.F1, wire.write_body(mirror)))


def test_our_own_salt_sent_back_is_refused() -> None:
    ours = ClientHandshake(client(), CLIENT_SALT)
    mirror = p.HandshakeF1(dsid=BROKER_DSID, public_key=BROKER_PUBLIC, salt=CLIENT_SALT)
    with pytest.raises(HandshakeRefused, match="our own salt"):
        ours.answer(frame(p.F1, wire.write_body(mirror)))


def test_another_version_is_refused() -> None:
    _, theirs = pair()
    hello = p.HandshakeF0(version=(3, 1), dsid=CLIENT_DSID, public_key=CLIENT_PUBLIC, salt=bytes(32))
    with pytest.raises(HandshakeRefused, match=r"version 3\.1"):
        theirs.hello(frame(p.F0, wire.write_body(hello)))


@pytest.mark.parametrize(
    "dsid", ["short", "a" * 85 + CLIENT_DSID[-43:], "my link-" + CLIENT_DSID[-43:], "%zz" + CLIENT_DSID[-43:]]
)
def test_a_dsid_that_is_not_well_formed_is_refused(dsid: str) -> None:
    _, theirs = pair()
    hello = p.HandshakeF0(version=(2, 0), dsid=dsid, public_key=CLIENT_PUBLIC, salt=bytes(32))
    with pytest.raises(HandshakeRefused, match="not well formed"):
        theirs.hello(frame(p.F0, wire.write_body(hello)))


@pytest.mark.parametrize("change", [lambda body: body[:-1], lambda body: body + b"\0", lambda body: b""])
def test_a_body_of_another_length_is_refused(change) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = pair()
    with pytest.raises(HandshakeRefused, match="cannot be read"):
        theirs.hello(frame(p.F0, change(ours.hello())))


@pytest.mark.parametrize(("status", "counts"), [(0x40, 0x40), (0xC9, 0xC9), (0xF9, 0xC9), (0xF1, 0x50)])
def test_a_refusal_by_status_is_understood_in_both_forms(status: int, counts: int) -> None:
    for data in (wire.refusal(p.F3, status), bytes((9, 0, 0, 0, 9, 0, p.F3, 0, status))):
        ours, theirs = pair()
        ours.answer(frame(p.F1, theirs.hello(frame(p.F0, ours.hello()))))
        found: list[Received] = []
        wire.Reader().read(data, found.append)
        with pytest.raises(HandshakeRefused, match="the server refused") as refused:
            ours.finish(found[0])
        assert refused.value.status == counts


def test_no_repr_shows_a_key_or_a_token() -> None:
    token = make_token(random.Random(3))
    ours, theirs = pair(token=token)
    answer = frame(p.F2, ours.answer(frame(p.F1, theirs.hello(frame(p.F0, ours.hello())))))
    claim = theirs.check(answer)
    shown = " ".join(map(repr, (client(), ours, theirs, answer, claim, ours.finish(frame(p.F3, theirs.welcome(""))))))
    for secret in (token, token[16:], claim.token, CLIENT_KEY.hex(), SECRET.hex()):
        assert secret not in shown


def test_a_name_that_no_dsid_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be part of a dsId"):
        Identity(CLIENT_KEY, "my link")
