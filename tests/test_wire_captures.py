# SPDX-License-Identifier: Apache-2.0
"""Captures: exchange between the core and other programs, and conversion of pcapng."""

import io
import struct
from pathlib import Path

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nanet._core import wire
from nanet.errors import UsageError
from nanet.files import pcapng

HOST, PORT = 0x7F000001, 58913
FRAME = wire.build_udp_frame((HOST, 4000), (HOST, PORT), bytes(range(60)))
TIME_NS = 1_700_000_000_123_456_789


@given(
    st.binary(max_size=300),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 65535),
    st.integers(0, 65535),
)
def test_frames_are_read_alike_by_dpkt(payload: bytes, here: int, there: int, sport: int, dport: int) -> None:
    frame = wire.build_udp_frame((here, sport), (there, dport), payload)
    ip = dpkt.ethernet.Ethernet(frame).data
    assert isinstance(ip, dpkt.ip.IP)
    assert (ip.src, ip.dst) == (here.to_bytes(4, "big"), there.to_bytes(4, "big"))
    assert (ip.data.sport, ip.data.dport, bytes(ip.data.data)) == (sport, dport, payload)
    # dpkt replaces checksums of 0 when it packs.
    sums = ip.sum, ip.data.sum
    ip.sum = ip.data.sum = 0
    again = dpkt.ip.IP(bytes(ip))
    assert (again.sum, again.data.sum) == sums
    assert wire.parse_udp_frame(frame, dport) == (None, payload)


def test_pcap_is_read_by_dpkt(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    with wire.PcapWriter(str(path)) as writer:
        writer.write(TIME_NS, FRAME)
        writer.write_udp(TIME_NS + 1, (HOST, 1), (HOST, PORT), b"abc")
    with path.open("rb") as file:
        reader = dpkt.pcap.Reader(file)
        assert reader.datalink() == dpkt.pcap.DLT_EN10MB
        records = list(reader)
    assert [len(frame) for _, frame in records] == [len(FRAME), 45]
    assert records[0][1] == FRAME
    assert float(records[0][0]) == pytest.approx(TIME_NS / 1e9, abs=1e-6)


def test_pcap_of_dpkt_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b.pcap"
    with path.open("wb") as file:
        dpkt.pcap.Writer(file, snaplen=80).writepkt(FRAME, ts=1_700_000_000.25)
    assert list(wire.PcapReader(str(path))) == [(1_700_000_000_250_000_000, FRAME, len(FRAME))]


def test_errors_are_those_of_python(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        wire.PcapReader(str(tmp_path / "missing.pcap"))
    assert missing.value.filename == str(tmp_path / "missing.pcap")
    (tmp_path / "text").write_text("this is no capture, but it is long enough")
    with pytest.raises(ValueError, match="not a pcap"):
        wire.PcapReader(str(tmp_path / "text"))
    with pytest.raises(FileNotFoundError):
        wire.PcapWriter(str(tmp_path / "no" / "folder.pcap"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_disk_full_is_an_os_error() -> None:
    writer = wire.PcapWriter("/dev/full")
    writer.write(0, FRAME)
    with pytest.raises(OSError, match="No space left"):
        writer.close()


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(
    order: str, link_type: int = 1, resolution: int | None = None, offset: int | None = None
) -> bytes:
    options = b""
    if resolution is not None:
        options += struct.pack(f"{order}HHB3x", 9, 1, resolution)
    if offset is not None:
        options += struct.pack(f"{order}HHq", 14, 8, offset)
    return block(
        order, 1, struct.pack(f"{order}HHI", link_type, 0, 70) + options + (bytes(4) if options else b"")
    )


def enhanced(order: str, index: int, ticks: int, frame: bytes, original: int | None = None) -> bytes:
    head = struct.pack(
        f"{order}IIIII", index, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), original or len(frame)
    )
    return block(order, 6, head + frame)


def converted(tmp_path: Path, data: bytes) -> list[tuple[int, bytes, int]]:
    source = tmp_path / "capture.pcapng"
    source.write_bytes(data)
    with pcapng.as_classic_pcap(source) as path:
        assert path != str(source)
        records = list(wire.PcapReader(path))
    assert not Path(path).exists()
    return records


@pytest.mark.parametrize("order", "<>")
def test_pcapng_keeps_time_and_length_on_the_wire(tmp_path: Path, order: str) -> None:
    data = (
        section(order)
        + interface(order)
        + interface(order, resolution=9)
        + interface(order, resolution=0x80 | 10, offset=5)
    )
    data += block(order, 0x0BAD, b"unknown blocks are passed over")
    data += enhanced(order, 0, TIME_NS // 1000, FRAME)
    data += enhanced(order, 1, TIME_NS, FRAME[:50], original=len(FRAME))
    data += enhanced(order, 2, 3 * 1024 + 512, FRAME)
    data += block(
        order, 3, struct.pack(f"{order}I", 102) + FRAME[:70]
    )  # a simple packet, truncated at the interface's 70
    other = ">" if order == "<" else "<"
    data += section(other) + interface(other, resolution=9) + enhanced(other, 0, 7, FRAME)
    old = struct.pack(f"{other}HHIIII", 0, 0, 0, 9, len(FRAME), len(FRAME)) + FRAME
    data += block(other, 2, old)
    assert converted(tmp_path, data) == [
        (TIME_NS // 1000 * 1000, FRAME, len(FRAME)),
        (TIME_NS, FRAME[:50], len(FRAME)),
        (8_500_000_000, FRAME, len(FRAME)),
        (0, FRAME[:70], 102),
        (7, FRAME, len(FRAME)),
        (9, FRAME, len(FRAME)),
    ]


def test_pcapng_of_dpkt_is_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    writer = dpkt.pcapng.Writer(buffer)
    writer.writepkt(FRAME, ts=1_700_000_000.5)
    assert converted(tmp_path, buffer.getvalue()) == [(1_700_000_000_500_000_000, FRAME, len(FRAME))]


def test_classic_pcap_is_passed_through(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    wire.PcapWriter(str(path)).close()
    with pcapng.as_classic_pcap(path) as same:
        assert same == str(path)
    assert path.exists()


def test_pcapng_cut_off_gives_a_pcap_cut_off(tmp_path: Path) -> None:
    whole = section("<") + interface("<") + enhanced("<", 0, 1, FRAME)
    for size in (len(whole) + 1, len(whole) + 9, len(whole) + 40):
        source, target = tmp_path / "c.pcapng", tmp_path / "c.pcap"
        source.write_bytes((whole + enhanced("<", 0, 1, FRAME))[:size])
        assert pcapng.to_pcap(source, target) == 1
        reader = wire.PcapReader(str(target))
        assert len(list(reader)) == 1
        assert reader.truncated


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            section("<") + interface("<", link_type=113) + enhanced("<", 0, 0, FRAME),
            "link type 113 is not Ethernet",
        ),
        (section("<") + enhanced("<", 0, 0, FRAME), "interface 0, which is not described"),
        (section("<") + struct.pack("<III", 6, 0xFFFFFFF0, 0), "a block of 4294967280 bytes at byte 28"),
        (section("<") + struct.pack("<III", 6, 8, 0), "a block of 8 bytes"),
        (section("<") + struct.pack("<III", 5, 12, 16), "two lengths differ"),
        (section("<") + interface("<") + block("<", 6, bytes(8)), "too short"),
        (
            section("<") + interface("<") + block("<", 6, struct.pack("<5I", 0, 0, 0, 99, 99)),
            "a packet of 99 bytes",
        ),
        (b"\x0a\x0d\x0d\x0a" + bytes(24), "without a byte order"),
    ],
)
def test_faults_of_a_pcapng_are_reported(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as error:
        converted(tmp_path, data)
    assert "capture.pcapng" in str(error.value)
    assert "editcap" in str(error.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"missing\.pcapng"),
        pcapng.as_classic_pcap(tmp_path / "missing.pcapng"),
    ):
        pass


@given(st.binary(max_size=120))
def test_random_bytes_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("random")
    (folder / "r").write_bytes(section("<") + interface("<") + data)
    try:
        pcapng.to_pcap(folder / "r", folder / "out.pcap")
    except UsageError:
        return
    list(wire.PcapReader(str(folder / "out.pcap")))
