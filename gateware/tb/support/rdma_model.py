# SPDX-License-Identifier: SHL-2.1
"""Reference model of a node's RDMA network interface, from docs/formats.md; packets are lists of words."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field

import reference_torus as torus

OK, BAD_CRC, BAD_LENGTH, BAD_TYPE, BAD_DOMAIN, OUT_OF_RANGE, NO_RIGHT = range(7)
NO_SLOT, GET_RING_FULL, OUT_OF_LATTICE, BAD_PORT, LINK_DOWN, TIMED_OUT, UNREADABLE = range(7, 14)
SPOILED = 0xFFFFFFFF << 96  # footer bits: complement of the CRC
PUT_ARRIVED, SEND_ARRIVED, COMPLETED, FAILED = range(6, 10)
INLINE, EVENT, NOTIFY, ACK = 1, 2, 4, 8  # flags of a descriptor
WRITE, READ = 1, 2  # rights
PAGE = 4096
APENET_VERSION = 1

Event = tuple[int, int, int, int, int, int, int]  # type, stream, flags, buffer, bytes, frame, n


def pack_node(at: tuple[int, int, int]) -> int:
    """16 bits of a node."""
    return at[0] | at[1] << 6 | at[2] << 11


@dataclass(frozen=True)
class Buffer:
    """Registered buffer."""

    domain: int
    address: int
    size: int
    rights: int

    def holds(self, domain: int, at: int, size: int) -> bool:
        """Whether [at, at + size) lies inside."""
        return domain == self.domain and self.address <= at and at + size <= self.address + self.size


@dataclass
class Slots:
    """Receive slots of a port."""

    domain: int
    address: int
    log2_stride: int
    log2_slots: int
    posted: int
    used: int = 0


@dataclass(frozen=True)
class Descriptor:
    """Put ring descriptor."""

    type: int
    node: tuple[int, int, int]
    bytes: int
    remote: int = 0
    local: int = 0
    remote_domain: int = 0
    local_domain: int = 0
    port: int = 0
    flags: int = 0
    message: int = 0
    immediate: int = 0
    payload: bytes = b""  # inline

    def entries(self, k: int, log2_entries: int) -> list[bytes]:
        """Put ring entries from number k on, with their lap."""
        lap = (k >> log2_entries) + 1
        head = struct.pack(
            "<QQIHHHBBB3xII20xI",
            *(self.local, self.remote, self.bytes, self.remote_domain, self.local_domain),
            *(pack_node(self.node), self.port, self.type, self.flags, self.message, self.immediate, lap),
        )
        padded = self.payload + bytes(-len(self.payload) % 64)
        return [head, *(padded[at : at + 64] for at in range(0, len(padded), 64))]


@dataclass
class Interface:
    """Network interface of one node: memory, tables, and what it must have done."""

    me: tuple[int, int, int]
    size: tuple[int, int, int]
    port: int = 0
    buffers: list[Buffer] = field(default_factory=list)
    pages: dict[tuple[int, int], int] = field(default_factory=dict)  # (domain, page number): physical page
    slots: dict[int, Slots] = field(default_factory=dict)
    gets_free: int = 1 << 30
    datagrams: list[list[int]] = field(default_factory=list)
    memory: dict[int, int] = field(default_factory=dict)  # bytes written, by physical address
    events: list[Event] = field(default_factory=list)
    replies: list[list[int]] = field(default_factory=list)
    gets: list[dict[str, int]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    open: list[dict] = field(default_factory=list)  # messages under way

    # ------------------------------------------------------------------------------------------ tables

    def key(self, domain: int, at: int, size: int, right: int) -> int:
        """Reason of a refused access, or OK."""
        holding = [b for b in self.buffers if b.holds(domain, at, size)]
        if not holding:
            return OUT_OF_RANGE if any(b.domain == domain for b in self.buffers) else BAD_DOMAIN
        return OK if right == 0 or holding[0].rights & right else NO_RIGHT

    def physical(self, domain: int, at: int) -> int | None:
        """Physical address, or None."""
        page = self.pages.get((domain, at // PAGE))
        return None if page is None else page * PAGE + at % PAGE

    def write(self, domain: int, at: int, data: bytes) -> bool:
        """Write within a page; False without a translation."""
        if not data:
            return True
        to = self.physical(domain, at)
        if to is None:
            self.counters["untranslated"] += 1
            return False
        self.memory.update({to + i: byte for i, byte in enumerate(data)})
        return True

    # ------------------------------------------------------------------------------------------ receive

    def receive(self, words: list[int]) -> None:
        """Account of one packet that the router delivered."""
        head, foot = torus.unpack(torus.HEADER, words[0]), torus.unpack(torus.FOOTER, words[-1])
        reason = self.check(head, foot, words)
        if not reason and head["type"] in (torus.RAW, torus.ETHERNET):
            self.counters["foreign"] += 1
            return
        payload = b"".join(map(torus.to_bytes, words[1:-1]))[: head["length"]]
        slot = None
        if not reason:
            reason, slot = self.place(head, foot, payload)
        if reason is None:  # counted by `place`
            return
        self.counters[f"refused_{reason}"] += 1
        request = head["type"] in (torus.PUT, torus.GET, torus.SEND)
        # Payload not read at its source, which has reported it.
        spoiled = reason == BAD_CRC and not self.check(head, foot | {"crc": foot["crc"] ^ 0xFFFFFFFF}, words)
        if spoiled and not foot["flags"] & ACK:
            return
        if reason and len(words) > 1 and (request or (reason == BAD_TYPE and head["type"] != torus.DATAGRAM)):
            self.reply(torus.NACK, head, foot, reason)
        if not reason and head["type"] in (torus.PUT, torus.SEND) and foot["flags"] & torus.ACK:
            self.reply(torus.DONE, head, foot, head["length"])
        source = pack_node((foot["source_x"], foot["source_y"], foot["source_z"]))
        frame = head["channel"] << 16 | source
        size, message = head["length"], foot["message"]
        if slot is not None and not reason:
            self.events.append((SEND_ARRIVED, head["intra"], 0, slot, size, frame, message))
        elif slot is not None:
            self.events.append((FAILED, head["intra"], reason, slot, 0, frame, message))
        elif head["type"] == torus.PUT and not reason and foot["flags"] & 6 == 6:
            self.events.append((PUT_ARRIVED, head["intra"], 0, foot["immediate"], size, frame, message))

    def check(self, head: dict[str, int], foot: dict[str, int], words: list[int]) -> int:
        """Reason that needs no table."""
        size, kind = head["length"], head["type"]
        if kind & 16:
            return BAD_TYPE
        if len(words) - 2 != -(-size // 16) or size > torus.MAX_PAYLOAD or head["reserved"]:
            return BAD_LENGTH
        if head["out_of_lattice"] or (head["x"], head["y"], head["z"]) != self.me:
            return OUT_OF_LATTICE
        if kind in (torus.RAW, torus.ETHERNET):
            return OK
        data = b"".join(map(torus.to_bytes, words[1:-1]))
        if foot["flags"] & 1 and foot["crc"] != torus.packet_crc(words[0], data, words[-1]):
            return BAD_CRC
        if kind > torus.DATAGRAM:
            return BAD_TYPE
        wrong = {
            torus.PUT: head["address"] % PAGE + size > PAGE,
            torus.GET_DATA: head["address"] % PAGE + size > PAGE,
            torus.GET: size != 16,
            torus.DONE: size != 0,
            torus.NACK: size != 0,
            torus.DATAGRAM: size < 32,
        }
        return BAD_LENGTH if wrong.get(kind) else OK

    def place(
        self, head: dict[str, int], foot: dict[str, int], payload: bytes
    ) -> tuple[int | None, int | None]:
        """(reason or None if counted, receive slot) of a sound packet."""
        kind, domain, at = head["type"], head["channel"], head["address"]
        source = (foot["source_x"], foot["source_y"], foot["source_z"])
        if kind == torus.PUT:
            reason = self.key(domain, at, len(payload), WRITE)
            return reason or (OK if self.write(domain, at, payload) else OUT_OF_RANGE), None
        if kind == torus.GET:
            request = torus.unpack(torus.EXTENSION, int.from_bytes(payload, "little"))
            reason = self.key(domain, at, request["bytes"], READ)
            if not reason and len(self.gets) >= self.gets_free:
                reason = GET_RING_FULL
            if not reason:
                entry = {"address": at, "port": foot["source_intra"], "domain": domain}
                entry |= {"reply": request["reply_address"], "reply_domain": request["reply_channel"]}
                entry["bytes"] = request["bytes"]
                self.gets.append(entry | {"node": source, "message": foot["message"]})
            return reason, None
        if kind == torus.SEND:
            slots = self.slots.get(head["intra"])
            if slots is None:
                return BAD_PORT, None
            if slots.domain != domain:
                return BAD_DOMAIN, None
            if len(payload) > 1 << slots.log2_stride:
                return BAD_LENGTH, None
            if slots.used == slots.posted:
                return NO_SLOT, None
            slot = slots.used % (1 << slots.log2_slots)
            slots.used += 1
            fine = self.write(domain, slots.address + (slot << slots.log2_stride), payload)
            return (OK if fine else OUT_OF_RANGE), slot
        if kind == torus.DATAGRAM:
            if payload[0] != APENET_VERSION:
                return BAD_TYPE, None
            if payload[4:6] != bytes(2) or len(payload) < 48 or len(payload) % 16:
                return BAD_LENGTH, None
            self.datagrams.append(torus.payload_words(payload))
            return OK, None
        return self.answer(kind, head, foot, payload), None

    def answer(self, kind: int, head: dict[str, int], foot: dict[str, int], payload: bytes) -> int | None:
        """Account of DONE, NACK and GET data."""
        source = (foot["source_x"], foot["source_y"], foot["source_z"])
        found = [m for m in self.open if m["message"] == foot["message"] and m["node"] == source]
        if kind != torus.NACK:
            found = [m for m in found if (m["type"] == torus.GET) == (kind == torus.GET_DATA)]
        if not found:
            self.counters["unexpected"] += 1
            if kind == torus.NACK:
                frame = head["channel"] << 16 | pack_node(source)
                self.events.append(
                    (FAILED, head["intra"], head["address"] & 15, 0, 0, frame, foot["message"])
                )
            return None
        message = found[0]
        if kind == torus.NACK:
            self.fail(message, head["address"] & 15)
            return OK
        size = head["address"] & 0xFFFFFFFF if kind == torus.DONE else len(payload)
        if kind == torus.GET_DATA:
            first, at = message["local"], head["address"]
            inside = first <= at and at + size <= first + message["bytes"]
            if not inside or head["channel"] != message["local_domain"]:
                self.counters["unexpected"] += 1
                return None
            if not self.write(head["channel"], at, payload):
                self.fail(message, OUT_OF_RANGE)
                return OUT_OF_RANGE
        if size > message["left"]:
            self.counters["unexpected"] += 1
            return None
        message["left"] -= size
        if message["left"] == 0:
            self.open.remove(message)
            if message["completed"]:
                self.events.append(self.end_event(message, COMPLETED, 0))
        return OK

    def fail(self, message: dict, reason: int) -> None:
        """End of a message with a reason."""
        self.open.remove(message)
        self.events.append(self.end_event(message, FAILED, reason))

    def end_event(self, message: dict, kind: int, reason: int) -> Event:
        """Event at the end of a message."""
        frame = message["domain"] << 16 | pack_node(message["node"])
        return (kind, self.port, reason, message["type"], message["bytes"], frame, message["message"])

    def reply(self, kind: int, head: dict[str, int], foot: dict[str, int], value: int) -> None:
        """DONE or NACK to the source of a packet."""
        fields = {"vchan": torus.INJECT, "channel": head["channel"], "type": kind, "address": value}
        fields |= {axis: foot[f"source_{axis}"] for axis in "xyz"} | {"intra": foot["source_intra"]}
        end = {f"source_{axis}": at for axis, at in zip("xyz", self.me, strict=True)}
        end |= {"source_intra": head["intra"], "message": foot["message"], "flags": torus.LAST}
        self.replies.append(torus.packet(fields, b"", end, ecc=False))

    # ------------------------------------------------------------------------------------------ transmit

    def read(self, memory, domain: int, at: int, size: int) -> bytes | None:
        """Bytes at virtual addresses, or None without a translation."""
        data = b""
        while len(data) < size:
            part = min(size - len(data), PAGE - (at + len(data)) % PAGE)
            place = self.physical(domain, at + len(data))
            if place is None:
                return None
            data += memory.read(place, part)
        return data

    def unreadable(self, kind: int, d: Descriptor | None = None) -> None:
        """Account of an entry of the put ring or the GET ring that cannot be read; d: its payload alone."""
        known = (d.bytes, d.remote_domain << 16 | pack_node(d.node), d.message) if d else (0, 0, 0)
        self.counters["read_errors"] += 1
        self.events.append((FAILED, self.port, UNREADABLE, kind, *known))

    def post(self, d: Descriptor, memory, failed: frozenset[int] = frozenset()) -> list[list[int]]:
        """Packets of a descriptor; opens its message, or reports its fault. `failed`: packets not read."""
        message = {
            "type": d.type,
            "node": d.node,
            "message": d.message,
            "bytes": d.bytes,
            "left": d.bytes,
            "domain": d.remote_domain,
            "local": d.local,
            "local_domain": d.local_domain,
            "completed": bool(d.flags & EVENT),
        }
        reason = self.fault(d)
        if not reason and d.bytes and not d.flags & INLINE:
            reason = self.key(d.local_domain, d.local, d.bytes, 0)
        if reason:
            self.counters["bad_descriptors"] += 1
            self.events.append(self.end_event(message, FAILED, reason))
            return []
        answered = d.type == torus.GET or d.flags & ACK
        if answered:
            self.open.append(message)
        fields = {"vchan": torus.INJECT, "channel": d.remote_domain, "type": d.type, "intra": d.port}
        fields |= dict(zip("xyz", d.node, strict=True))
        foot = {f"source_{axis}": at for axis, at in zip("xyz", self.me, strict=True)}
        foot |= {"source_intra": self.port, "message": d.message, "immediate": d.immediate}
        if d.type == torus.GET:
            request = {"reply_address": d.local, "reply_channel": d.local_domain, "bytes": d.bytes}
            payload = torus.to_bytes(torus.pack(torus.EXTENSION, **request))
            return [torus.packet(fields | {"address": d.remote}, payload, foot | {"flags": 2}, ecc=False)]
        flags = d.flags & (NOTIFY | ACK)
        packets = self.cut(fields, foot | {"flags": flags}, d, memory)
        self.spoil(failed)
        if packets is None:
            self.counters["bad_descriptors"] += 1
            if answered:
                self.fail(message, OUT_OF_RANGE)
            else:
                self.events.append(self.end_event(message, FAILED, OUT_OF_RANGE))
            return self.partial
        if failed and not answered:
            self.events.append(self.end_event(message, FAILED, OUT_OF_RANGE))
        elif not answered and d.flags & EVENT:
            self.events.append(self.end_event(message, COMPLETED, 0))
        return packets

    def data_packets(self, get: dict, memory, failed: frozenset[int] = frozenset()) -> list[list[int]]:
        """GET data of an entry of the GET ring, and the NACK. `failed`: unreadable packets, by number."""
        fields = {"vchan": torus.INJECT, "channel": get["reply_domain"], "type": torus.GET_DATA}
        fields |= dict(zip("xyz", get["node"], strict=True)) | {"intra": get["port"]}
        foot = {f"source_{axis}": at for axis, at in zip("xyz", self.me, strict=True)}
        foot |= {"source_intra": self.port, "message": get["message"], "flags": 0}
        d = Descriptor(
            torus.GET_DATA, get["node"], get["bytes"], get["reply"], get["address"], 0, get["domain"]
        )
        packets = self.cut(fields, foot, d, memory)
        self.spoil(failed)
        if packets is not None and not failed:
            return packets
        nack = fields | {"channel": get["domain"], "type": torus.NACK, "address": OUT_OF_RANGE}
        return [*self.partial, torus.packet(nack, b"", foot | {"flags": 2}, ecc=False)]

    def spoil(self, failed: frozenset[int]) -> None:
        """Packets whose payload was not read, by number."""
        for number in failed:
            self.partial[number][-1] ^= SPOILED
            self.counters["read_errors"] += 1

    def cut(self, fields: dict, foot: dict, d: Descriptor, memory) -> list[list[int]] | None:
        """Packets of a message, or None where a page has no translation (`partial`: those before it)."""
        self.partial = []
        remote, done = 0 if d.type == torus.SEND else d.remote, 0
        while True:
            size = min(d.bytes - done, PAGE - (remote + done) % PAGE)
            if d.flags & INLINE:
                data = d.payload[done : done + size]
            else:
                data = self.read(memory, d.local_domain, d.local + done, size)
            if data is None:
                return None
            last = torus.LAST if done + size == d.bytes else 0
            head = fields | {"address": remote + done}
            self.partial.append(torus.packet(head, data, foot | {"flags": foot["flags"] | last}, ecc=False))
            done += size
            if done == d.bytes:
                return self.partial

    def fault(self, d: Descriptor) -> int:
        """Reason of a descriptor that is refused without a table."""
        if d.type not in (torus.PUT, torus.GET, torus.SEND):
            return BAD_TYPE
        if d.flags & INLINE and (d.bytes > 192 or d.type == torus.GET):
            return BAD_LENGTH
        if d.type == torus.SEND and d.bytes > torus.MAX_PAYLOAD:
            return BAD_LENGTH
        if any(at >= size for at, size in zip(d.node, self.size, strict=True)):
            return OUT_OF_LATTICE
        if d.port > 15:
            return BAD_PORT
        if d.type != torus.SEND and d.remote + d.bytes > 1 << 48:
            return OUT_OF_RANGE
        return OUT_OF_RANGE if not d.flags & INLINE and d.local >> 48 else OK
