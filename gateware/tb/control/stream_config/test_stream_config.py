# SPDX-License-Identifier: SHL-2.1
"""Bench of stream_config: every output field comes from the register bits that doc/registers.md names."""

import random
from pathlib import Path

import cocotb
from cocotb.triggers import RisingEdge
from handshake import reset, start_clock
from simulate import simulate
from sources import GATEWARE, modules
from systemrdl import RDLCompiler

SOURCE = GATEWARE / "regs" / "nanet_regs.rdl"
WORD = (31, 0)
LONG = (("high", WORD), ("low", WORD))
MAC = (("mac_high", (15, 0)), ("mac_low", WORD))
# Fields of a type, uppermost first: register and bits. Unused register bits have no effect.
HOST = (*MAC, ("ip", WORD))
FILTER = (("mode", (0, 0)), ("mode", (1, 1)), ("mode", (27, 16)), ("dst_ip", WORD), ("ports", (15, 0)))
FILTER += (("src_ip", WORD), ("src_mask", WORD), ("ports", (31, 16)))
ENDPOINT = (*MAC, ("ip", WORD), ("port", (15, 0)), ("port", (31, 31)))
RULES = (("rules", (7, 0)), ("rules", (11, 8)), ("rules", (31, 16)), ("max_frames", (24, 0)))
# Output, register file, fields, and index of its count in (CHANNELS, FILTERS, DEVICES, DESTINATIONS).
ARRAYS = [("host", "network[{}].", HOST, 0), ("filter", "filter[{}].", FILTER, 1)]
ARRAYS += [("destinations", "destination[{}].", ENDPOINT, 3)]
for output, path in (
    *(("clop_base", "clop"), ("queue_base", "queue"), ("finished_addr", "finished")),
    *(("ring_base", "ring"), ("send_base", "send_base"), ("send_bus", "send_bus")),
):
    ARRAYS.append((output, f"device[{{}}].{path}.", LONG, 2))
MOST, FEW = (2, 2, 4, 4), (1, 1, 1, 1)  # parameters of the two instances


def outputs():
    """Yield each output's name with its registers and bits, uppermost first."""
    for prefix, counts in (("", MOST), ("few_", FEW)):
        yield f"{prefix}rules", RULES
        for name, path, fields, kind in ARRAYS:
            elements = reversed(range(counts[kind]))
            places = [(path.format(i) + register, bits) for i in elements for register, bits in fields]
            yield prefix + name, places


def registers():
    """Return address, reset value and writable bits of each register except the memories, by name."""
    compiler = RDLCompiler()
    compiler.compile_file(str(SOURCE))
    top = compiler.elaborate(top_def_name="nanet_regs").top
    found = {}
    for node in top.descendants(unroll=True):
        if type(node).__name__ == "RegNode":
            fields = [field for field in node.fields() if field.is_sw_writable]
            writable = sum((1 << field.width) - 1 << field.low for field in fields)
            value = sum((field.get_property("reset") or 0) << field.low for field in fields)
            found[node.get_path().removeprefix("nanet_regs.")] = (node.absolute_address, value, writable)
    return found


class Bench:
    """Driver that writes registers and records their contents."""

    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.registers, self.outputs = registers(), list(outputs())
        self.holds = {name: value for name, (_, value, _) in self.registers.items()}

    async def start(self):
        dut = self.dut
        start_clock(dut)
        dut.reg_request.value = dut.reg_write.value = 0
        await reset(dut)

    async def write(self, name, value):
        dut, (address, _, writable) = self.dut, self.registers[name]
        dut.reg_addr.value, dut.reg_wdata.value = address, value
        dut.reg_write.value = dut.reg_request.value = 1
        for _ in range(50):
            await RisingEdge(dut.clk)
            if int(dut.reg_acknowledge.value):
                break
        else:
            raise AssertionError(f"no acknowledgement of {name}")
        dut.reg_request.value = 0
        await RisingEdge(dut.clk)
        self.holds[name] = value & writable

    def says(self):
        """Return the value of each output."""
        return {name: int(getattr(self.dut, name).value) for name, _ in self.outputs}

    def check(self):
        for output, fields in self.outputs:
            want = 0
            for register, (high, low) in fields:
                width = high - low + 1
                want = want << width | self.holds[register] >> low & (1 << width) - 1
            assert int(getattr(self.dut, output).value) == want, output


@cocotb.test()
async def types_are_as_wide_as_their_fields(dut):
    """Detects new fields that the test does not cover."""
    bench = Bench(dut)
    for output, fields in bench.outputs:
        assert len(getattr(dut, output)) == sum(high - low + 1 for _, (high, low) in fields), output


@cocotb.test()
async def after_reset_it_says_what_the_registers_start_with(dut):
    bench = Bench(dut)
    await bench.start()
    bench.check()
    assert int(dut.rules.value) >> 25 == 0x1C << 20 | 0xF << 16 | 1472


@cocotb.test()
async def all_registers_at_once(dut):
    """All writable registers hold values: detects swapped registers."""
    bench = Bench(dut)
    await bench.start()
    for _ in range(4):
        for name, (_, _, writable) in bench.registers.items():
            if writable:
                await bench.write(name, bench.rng.getrandbits(32))
        bench.check()


@cocotb.test()
async def one_register_changes_what_it_is_of_and_nothing_else(dut):
    bench = Bench(dut)
    await bench.start()
    of = {}
    for output, fields in bench.outputs:
        for register, (high, low) in fields:
            of.setdefault(register, {}).setdefault(output, 0)
            of[register][output] |= (1 << high + 1) - (1 << low)
    for name, (_, _, writable) in bench.registers.items():
        if not writable:
            continue
        assert all(bits & ~writable == 0 for bits in of.get(name, {}).values())
        for value in (0, 0xFFFFFFFF, bench.rng.getrandbits(32)):
            before, held = bench.says(), bench.holds[name]
            await bench.write(name, value)
            changed = {output for output, was in bench.says().items() if was != before[output]}
            differs = held ^ bench.holds[name]
            assert changed == {output for output, bits in of.get(name, {}).items() if differs & bits}, name
    bench.check()


def test_stream_config():
    bench = Path(__file__).with_name("config_bench.sv")
    sources = [modules()["stream_config"], bench]
    simulate("config_bench", "test_stream_config", extra=sources)
