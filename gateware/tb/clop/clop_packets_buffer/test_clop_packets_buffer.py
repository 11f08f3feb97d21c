# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_packets_buffer: buffer addresses, and buffer availability by return slot and sender."""

import random
from collections import Counter

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from handshake import Stepped, reset, start_clock, wait
from simulate import simulate

LOW = (1 << 32) - 1
AFTER = 3  # cycles from a number or a status change to the answer


class Bench(Stepped):
    """Module with its user of buffers, consumers and sender; numbers do not wrap here."""

    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.devices, self.most = len(dut.base_vaddr) // 64, 1 << len(dut.return_index)
        self.now, self.task, self.met = 0, None, Counter()
        self.fills = self.consumer = self.sender = self.junk = 0.0  # activity rates

    def configs(self, largest=16):
        """Yield the supported counts of buffers and devices as exponents."""
        for log2_devices in range(self.devices.bit_length()):
            for log2_buffers in range(self.most.bit_length() - log2_devices):
                if 1 << log2_buffers + log2_devices <= largest:
                    yield log2_buffers, log2_devices

    async def start(self, log2_buffers, log2_devices, first, slots=None, units=None):
        """Restart the module, return slots written first; the driver's 0 equals a number near 2^32."""
        slots = first & LOW if slots is None else slots
        dut, rng = self.dut, self.rng
        if self.task:
            self.task.cancel()
        else:
            start_clock(dut)
        self.log2_devices, self.all = log2_devices, 1 << log2_buffers + log2_devices
        self.bases = [rng.getrandbits(63) for _ in range(self.devices)]
        self.units = units or rng.choice([1, rng.getrandbits(18), (1 << 18) - 1])
        dut.log2_buffers.value, dut.log2_devices.value = log2_buffers, log2_devices
        dut.base_vaddr.value = sum(base << 64 * d for d, base in enumerate(self.bases))
        dut.buffer_units.value, dut.taken.value = self.units, 0
        self.n = self.first = self.passed = first
        self.slots, self.out, self.returns = dict.fromkeys(range(self.all), slots), [], []
        self.is_taken, self.leaves, self.since, self.could, self.said = False, 0, self.now, [], False
        dut.rst.value, dut.return_valid.value, dut.return_value.value = 1, 1, slots
        dut.n.value, dut.sender_next.value = first & LOW, first & LOW
        for index in range(min(self.all, 64)):
            dut.return_index.value = index
            await RisingEdge(dut.clk)
        dut.return_valid.value = 0
        await reset(dut)
        self.task = cocotb.start_soon(self.run())

    # ------------------------------------------------------------ expected state

    def slot_is_back(self):
        return self.slots[self.n % self.all] == (self.n - self.all + 1 & LOW)

    def may_go_out(self):
        before = self.n - self.all  # previous number of the same buffer
        return before < self.first or (self.slot_is_back() and self.passed > before)

    # ------------------------------------------------------------ cycle by cycle

    def drive(self):
        dut, rng = self.dut, self.rng
        dut.taken.value = 0
        if self.is_taken and self.now >= self.leaves:
            self.is_taken, self.since, self.could, self.said = False, self.now, [], False
            self.n += 1
        elif not self.is_taken and self.said and rng.random() < self.fills:
            dut.taken.value, self.is_taken = 1, True
            self.leaves = self.now + rng.choice([2, 3, 9])
            self.out.append(self.n)
        if rng.random() < self.sender:
            self.passed += self.passed < self.n
        if self.out and rng.random() < self.consumer:  # any order
            n = self.out.pop(rng.randrange(len(self.out)))
            self.returns.append((n % self.all, n + 1))
        elif self.out and rng.random() < self.junk:
            n = rng.choice(self.out)
            self.returns.append((n % self.all, n + rng.choice([0, 2, 1 + self.all, 1 - self.all])))
        dut.return_valid.value = int(bool(self.returns))
        if self.returns:
            index, value = self.returns.pop(0)
            dut.return_index.value, dut.return_value.value = index, value & LOW
            self.slots[index] = value & LOW
        dut.n.value, dut.sender_next.value = self.n & LOW, self.passed & LOW

    def look(self):
        dut = self.dut
        if self.is_taken:
            return
        self.could.append(self.may_go_out())
        if self.now - self.since < AFTER:
            return
        buffer, device = self.n % self.all >> self.log2_devices, self.n % (1 << self.log2_devices)
        assert (int(dut.buffer.value), int(dut.device.value)) == (buffer, device)
        vaddr = self.bases[device] + buffer * self.units * 64 & (1 << 64) - 1
        assert int(dut.vaddr.value) == vaddr
        self.said = bool(int(dut.available.value))
        assert self.said in self.could[-1 - AFTER :], f"{self.n:#x}: {self.said}"
        if self.n - self.all < self.first:
            self.met["buffer never allocated"] += 1
        elif not self.said:
            self.met[f"slot {self.slot_is_back():d}, sender {self.passed > self.n - self.all:d}"] += 1


PACES = {  # fills, consumer, sender, spurious writes
    "all_keep_up": (1.0, 1.0, 1.0, 0.0),
    "consumers_are_slow": (1.0, 0.04, 1.0, 0.2),
    "the_sender_is_slow": (1.0, 1.0, 0.04, 0.0),
    "everything_pauses": (0.3, 0.08, 0.08, 0.1),
}


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def round_after_round(dut, pace):
    bench = Bench(dut)
    for config in bench.configs():
        buffers = 1 << sum(config)
        # The number's low word wraps during the test.
        await bench.start(*config, first=(7 << 32) - bench.rng.randrange(2 * buffers + 1))
        bench.fills, bench.consumer, bench.sender, bench.junk = PACES[pace]
        end = bench.first + 3 * buffers + 4
        await wait(dut, lambda end=end: bench.n >= end)
    assert bench.met["buffer never allocated"]
    assert pace != "consumers_are_slow" or bench.met["slot 0, sender 1"]
    assert pace != "the_sender_is_slow" or bench.met["slot 1, sender 0"]


async def lapped(bench, config, first):
    """Allocate all buffers without a return."""
    await bench.start(*config, first=first)
    bench.fills = 1.0
    await wait(bench.dut, lambda: bench.n == first + bench.all)
    bench.fills = 0.0
    await ClockCycles(bench.dut.clk, 8)
    assert not bench.said


@cocotb.test()
@cocotb.parametrize(first=[0, (1 << 32) - 1, (1 << 31) - 1, 0x1_2345_6789])
async def only_its_own_number_gives_a_buffer_back(dut, first):
    bench = Bench(dut)
    for config in bench.configs():
        await lapped(bench, config, first)
        bench.passed = bench.n
        index = first % bench.all
        wrong = [first, first + 2, first + 1 + bench.all, first + 1 - bench.all, ~(first + 1)]
        wrong += [first + 1 ^ 1 << bit for bit in range(32)]
        for value in wrong:
            bench.returns.append((index, value))
        # numbers in other buffers' slots
        bench.returns += [(at, first + 1) for at in range(bench.all) if at != index]
        await ClockCycles(dut.clk, len(bench.returns) + 8)
        assert not bench.said
        bench.returns.append((index, first + 1))
        await ClockCycles(dut.clk, AFTER + 3)
        assert bench.said


@cocotb.test()
@cocotb.parametrize(first=[0, (1 << 32) - 1, (1 << 32) - 9, (1 << 31) - 1])
async def the_sender_has_to_be_past_it(dut, first):
    bench = Bench(dut)
    for config in bench.configs():
        await lapped(bench, config, first)
        bench.returns.append((first % bench.all, first + 1))
        for passed, goes in ((first, False), (first + 1, True), (bench.n, True)):
            bench.passed = passed
            await ClockCycles(dut.clk, 8)
            assert bench.said == goes


@cocotb.test()
async def the_first_lap_needs_no_return(dut):
    """The first lap needs no return, whatever the slots and the sender show; the same after each reset."""
    bench = Bench(dut)
    for config in bench.configs():
        for slots in (0, LOW, 5):
            await bench.start(*config, first=bench.rng.getrandbits(32), slots=slots)
            bench.fills, bench.sender = 1.0, 0.0
            await wait(dut, lambda: bench.n == bench.first + bench.all)
            await ClockCycles(dut.clk, 8)
            assert not bench.said


@cocotb.test()
async def every_address_of_the_largest_list(dut):
    """Every address up to the last buffer: 18 bits of units times all bits of the number."""
    bench = Bench(dut)
    log2_all, log2_devices = bench.most.bit_length() - 1, bench.devices.bit_length() - 1
    config = log2_all - log2_devices, log2_devices
    for back in (1, 2, *(bench.rng.randrange(bench.most) for _ in range(6))):
        await bench.start(*config, first=(3 << 32) - back, units=(1 << 18) - 1 if back < 3 else None)
        bench.fills = 1.0
        await wait(dut, lambda: bench.n >= bench.first + min(bench.all, 6))


@pytest.mark.parametrize(("most", "devices"), [(2, 1), (16, 1), (16, 4)])
def test_clop_packets_buffer(most, devices):
    run(most, devices)


def test_clop_packets_buffer_of_the_largest_list():
    run(1 << 16, 2, "every_address_of_the_largest_list")


def run(most, devices, testcase=None):
    parameters = {"MAX_BUFFERS": most, "DEVICES": devices}
    simulate("clop_packets_buffer", "test_clop_packets_buffer", parameters, testcase=testcase)
