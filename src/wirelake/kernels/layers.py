"""The layers around TCP that are rare: tunnels, labels, other framing, fragments.

``dig`` goes from the link down to TCP, one header after the other. The kernel in ``packets.py`` calls it for packets
that are not plain IP over a plain link, so it need not be fast; it must never look behind the end of a packet.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import at, load_little, store, swapped

NULL, ETHERNET, BSD_RAW, OTHER_RAW, RAW, LOOP, SLL, IPV4, IPV6_LINK, SLL2 = 0, 1, 12, 14, 101, 108, 113, 228, 229, 276
LINKS = frozenset({NULL, ETHERNET, BSD_RAW, OTHER_RAW, RAW, LOOP, SLL, IPV4, IPV6_LINK, SLL2})
MOST_LAYERS = 64

# What there is at a place.
AN_ETHERNET_FRAME, A_TYPE, A_PPP_FRAME, LABELS, AN_IP_PACKET, A_PROTOCOL = range(6)
"""A_TYPE: what an ethertype announces; A_PROTOCOL: what an IP protocol number announces."""

# What was found in the end: TCP, a fragment, or why a packet is foreign.
FOUND, FRAGMENT, LINK, INTERFACE, ETHERTYPE, UDP, PROTOCOL, HEADER, LAYERS = range(9)
FOREIGN_KINDS = ("link", "interface", "ethertype", "udp", "protocol", "header", "layers")
"""Names for LINK and what follows: the link type is not known; the interface is not described; not IP; UDP; another
protocol than TCP; a header is cut off or contradicts itself; too many layers."""

# Where it was found.
IP_AT, BODY_AT, END_AT, FRAGMENT_OFFSET, FRAGMENT_ID, FRAGMENT_PROTOCOL, FRAGMENT_IS_LAST, IS_SIX, CUT_AT = range(9)
"""BODY_AT: of TCP, or of the bytes of a fragment; END_AT: of the packet on the wire; CUT_AT: the end of what was
captured of it."""
PLACES = 9

VLANS = (0x8100, 0x88A8, 0x9100, 0x9200)
IP_TYPE, IPV6_TYPE, MPLS, MPLS_MULTICAST, PPPOE, BRIDGED = 0x0800, 0x86DD, 0x8847, 0x8848, 0x8864, 0x6558
ERSPAN, ERSPAN_3, PPP_IN_GRE = 0x88BE, 0x22EB, 0x880B
PPP_IP, PPP_IPV6, PPP_MPLS = 0x0021, 0x0057, 0x0281
IP_IN_IP, TCP, UDP_PROTOCOL, IPV6_IN_IP, GRE, AUTHENTICATION = 4, 6, 17, 41, 47, 51
VXLAN_PORT = 4789


@njit(cache=True, nogil=True, inline="always")
def big16(data, place):
    return np.int64(at(data, place)) << 8 | np.int64(at(data, place + 1))


@njit(cache=True, nogil=True, inline="always")
def big32(data, place):
    return np.int64(swapped(load_little(data, place)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def dig(data, place, end, full_end, link, places):
    """Go down to TCP. Return what was found, with ``places`` filled for TCP and for a fragment."""
    what, number, place = on_link(data, place, end, link)
    store(places, END_AT, full_end)
    store(places, CUT_AT, end)
    for _ in range(MOST_LAYERS):
        if what < 0:
            return -what
        if what == A_PROTOCOL and number == TCP:
            store(places, BODY_AT, place)
            return FOUND
        if what == AN_ETHERNET_FRAME:
            what, number, place = in_ethernet(data, place, end)
        elif what == A_TYPE:
            what, number, place = of_type(data, place, end, number)
        elif what == A_PPP_FRAME:
            what, number, place = in_ppp(data, place, end)
        elif what == LABELS:
            what, number, place = behind_labels(data, place, end)
        elif what == AN_IP_PACKET:
            what, number, place = in_ip(data, place, end, places)
        else:
            what, number, place = of_protocol(data, place, end, number)
    return LAYERS


@njit(cache=True, nogil=True, inline="always")
def nothing(reason):
    return np.int64(-reason), np.int64(0), np.int64(0)


@njit(cache=True, nogil=True, inline="always")
def layer(what, number, place):
    return np.int64(what), np.int64(number), np.int64(place)


@njit(cache=True, nogil=True)
def on_link(data, place, end, link):
    if link == ETHERNET:
        return layer(AN_ETHERNET_FRAME, 0, place)
    if link in (NULL, LOOP):
        # The address family is in the byte order of the capturing host and IPv6 has many numbers: the IP header says.
        return layer(AN_IP_PACKET, 0, place + 4)
    if link in (RAW, BSD_RAW, OTHER_RAW, IPV4, IPV6_LINK):
        return layer(AN_IP_PACKET, 0, place)
    if link == SLL:
        return layer(A_TYPE, big16(data, place + 14), place + 16) if place + 16 <= end else nothing(HEADER)
    if link == SLL2:
        return layer(A_TYPE, big16(data, place), place + 20) if place + 20 <= end else nothing(HEADER)
    return nothing(LINK)


@njit(cache=True, nogil=True)
def in_ethernet(data, place, end):
    if place + 14 > end:
        return nothing(HEADER)
    kind = big16(data, place + 12)
    if kind > 1500:
        return layer(A_TYPE, kind, place + 14)
    # A length: then LLC follows, and with SNAP an ethertype.
    is_snap = place + 22 <= end and big16(data, place + 14) == 0xAAAA and big32(data, place + 16) == 0x03000000
    return layer(A_TYPE, big16(data, place + 20), place + 22) if is_snap else nothing(ETHERTYPE)


@njit(cache=True, nogil=True)
def of_type(data, place, end, kind):
    if kind in VLANS:
        return layer(A_TYPE, big16(data, place + 2), place + 4) if place + 4 <= end else nothing(HEADER)
    if kind in (IP_TYPE, IPV6_TYPE):
        return layer(AN_IP_PACKET, 0, place)
    if kind in (MPLS, MPLS_MULTICAST):
        return layer(LABELS, 0, place)
    if kind == PPPOE:
        return layer(A_PPP_FRAME, 0, place + 6)
    if kind == BRIDGED:
        return layer(AN_ETHERNET_FRAME, 0, place)
    return nothing(ETHERTYPE)


@njit(cache=True, nogil=True)
def in_ppp(data, place, end):
    if place + 4 > end:
        return nothing(HEADER)
    if big16(data, place) == 0xFF03:
        place += 2
    if at(data, place) & 1:
        kind, place = np.int64(at(data, place)), place + 1
    else:
        kind, place = big16(data, place), place + 2
    if kind in (PPP_IP, PPP_IPV6):
        return layer(AN_IP_PACKET, 0, place)
    return layer(LABELS, 0, place) if kind == PPP_MPLS else nothing(ETHERTYPE)


@njit(cache=True, nogil=True)
def behind_labels(data, place, end):
    """Nothing says what the labels of MPLS stand before: it is IP if it begins like IP, else Ethernet, behind a control
    word if it then looks like Ethernet.
    """
    is_last = False
    while not is_last:
        if place + 5 > end:
            return nothing(HEADER)
        is_last = at(data, place + 2) & 1 != 0
        place += 4
    version = at(data, place) >> 4
    if version in (4, 6):
        return layer(AN_IP_PACKET, 0, place)
    return layer(AN_ETHERNET_FRAME, 0, place + 4 if version == 0 and has_known_type(data, place + 4, end) else place)


@njit(cache=True, nogil=True)
def has_known_type(data, place, end):
    return place + 14 <= end and of_type(data, place + 14, end, big16(data, place + 12))[0] >= 0


@njit(cache=True, nogil=True)
def in_ip(data, place, end, places):
    """Return what IP announces. Its length ends the packet: Ethernet pads short ones, offloading leaves it at 0."""
    if place + 20 > end:
        return nothing(HEADER)
    store(places, IP_AT, place)
    if at(data, place) >> 4 == 6:
        store(places, IS_SIX, 1)
        return in_ipv6(data, place, end, places)
    head, length = np.int64(at(data, place) & 0x0F) * 4, big16(data, place + 2)
    if at(data, place) >> 4 != 4 or head < 20 or 0 < length < head:
        return nothing(HEADER)
    store(places, IS_SIX, 0)
    if length:
        store(places, END_AT, min(at(places, END_AT), place + length))
    protocol, cut = np.int64(at(data, place + 9)), big16(data, place + 6)
    if cut & 0x3FFF:
        offset, is_last = (cut & 0x1FFF) * 8, cut & 0x2000 == 0
        return fragment(places, place + head, offset, big16(data, place + 4), protocol, is_last)
    return layer(A_PROTOCOL, protocol, place + head)


@njit(cache=True, nogil=True)
def fragment(places, body, offset, identification, protocol, is_last):
    store(places, BODY_AT, body)
    store(places, FRAGMENT_OFFSET, offset)
    store(places, FRAGMENT_ID, identification)
    store(places, FRAGMENT_PROTOCOL, protocol)
    store(places, FRAGMENT_IS_LAST, 1 if is_last else 0)
    return nothing(FRAGMENT)


@njit(cache=True, nogil=True)
def in_ipv6(data, ip, end, places):
    if ip + 40 > end:
        return nothing(HEADER)
    length, kind, place = big16(data, ip + 4), np.int64(at(data, ip + 6)), ip + 40
    if length:
        store(places, END_AT, min(at(places, END_AT), ip + 40 + length))
    while kind in (0, 43, 44, 51, 60, 135, 139, 140):
        if place + 8 > end:
            return nothing(HEADER)
        following, cut = np.int64(at(data, place)), big16(data, place + 2)
        if kind == 44:
            if cut & 0xFFF9:
                return fragment(places, place + 8, cut & 0xFFF8, big32(data, place + 4), following, cut & 1 == 0)
            place += 8
        elif kind == 51:
            place += (np.int64(at(data, place + 1)) + 2) * 4
        else:
            place += (np.int64(at(data, place + 1)) + 1) * 8
        kind = following
    return layer(A_PROTOCOL, kind, place)


@njit(cache=True, nogil=True)
def of_protocol(data, place, end, protocol):
    if protocol in (IP_IN_IP, IPV6_IN_IP):
        return layer(AN_IP_PACKET, 0, place)
    if protocol == GRE:
        return in_gre(data, place, end)
    if protocol == UDP_PROTOCOL:
        if place + 16 <= end and (big16(data, place) == VXLAN_PORT or big16(data, place + 2) == VXLAN_PORT):
            return layer(AN_ETHERNET_FRAME, 0, place + 16)
        return nothing(UDP)
    if protocol == AUTHENTICATION:
        if place + 12 > end:
            return nothing(HEADER)
        return layer(A_PROTOCOL, at(data, place), place + (np.int64(at(data, place + 1)) + 2) * 4)
    return nothing(PROTOCOL)


@njit(cache=True, nogil=True)
def in_gre(data, place, end):
    if place + 4 > end:
        return nothing(HEADER)
    flags, kind = big16(data, place), big16(data, place + 2)
    has_checksum, has_routing, has_key, has_sequence = flags & 0x8000, flags & 0x4000, flags & 0x2000, flags & 0x1000
    if flags & 7 == 1 and kind == PPP_IN_GRE:
        body = place + 8 + (4 if has_sequence else 0) + (4 if flags & 0x80 else 0)
        return layer(A_PPP_FRAME, 0, body)
    if flags & 7 or has_routing:
        return nothing(PROTOCOL)
    body = place + 4 + (4 if has_checksum else 0) + (4 if has_key else 0) + (4 if has_sequence else 0)
    if kind == ERSPAN:
        return layer(AN_ETHERNET_FRAME, 0, body + 8 if has_sequence else body)
    if kind == ERSPAN_3:
        if body + 12 > end:
            return nothing(HEADER)
        return layer(AN_ETHERNET_FRAME, 0, body + (20 if at(data, body + 11) & 1 else 12))
    return layer(A_TYPE, kind, body)
