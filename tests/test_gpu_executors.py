# SPDX-License-Identifier: Apache-2.0
"""A GPU in the loop of the live trigger: boards, trigger and L0TP on loopback; nothing lost."""

import json
import signal
import time

import pytest
from nanet.bench.chain import run_chain
from nanet.config.file import Config
from nanet.config.sections import Card, DetectorFile, Trigger
from nanet.run import host
from nanet.run.core_options import core_options
from nanet.run.replaying import replay_files

from nanet import _core
from nanet.bench import Settings, overload

TROUBLE = host.cuda()["trouble"]
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")]


@pytest.mark.parametrize(
    "executor", [pytest.param(name, marks=needs_gpu) for name in ("persistent", "launch")]
)
@pytest.mark.parametrize("algorithm", ["math", "tripl"])
def test_live_on_a_gpu(executor, algorithm):
    options = ["--device", "cuda", "--executor", executor, "--algorithm", algorithm]
    result = run_chain(2.0, 0.01, pad=True, trigger_options=options, times=True)
    assert result.lossless, result.losses
    assert result.trigger["account_closes"]
    assert result.trigger["executor"] == f"cuda-{executor}"
    assert result.trigger["device"] == "cuda:0"
    assert result.trigger["memory"] == ("pinned" if executor == "persistent" else "device")
    assert result.trigger["gpu_faults"] == 0
    assert result.trigger["primitives_out"] > 100_000
    assert result.trigger["latency_us"]["total"]["n"] == result.trigger["frames_out"]
    if executor == "persistent":
        assert 0 < result.trigger["clock_residual_ns"] < 100_000


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
def test_a_stop_of_the_process_is_no_fault_of_the_gpu():
    with overload.open_trigger(Settings(device="cuda", only="math")) as run:
        boards = run.boards(2000, 3.0)
        boards.start()
        time.sleep(0.5)
        run.process.send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        run.process.send_signal(signal.SIGCONT)
        while not boards.join(0.1):
            pass
        result = run.result()
    assert result["account_closes"] and result["gpu_faults"] == 0 and result["gpu_fallback_s"] == 0
    assert result["frames_answered"] > 2000


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
@pytest.mark.parametrize("algorithm", _core.cuda_algorithms())
@pytest.mark.parametrize(("detector", "merge"), [("square", False), ("na62", True)])
def test_frames_of_a_file_are_answered_as_by_the_cpu(nanet, tmp_path, algorithm, detector, merge):
    """The live executors, fed from a file: events built by the CPU, and merged frames in the kernel."""
    capture = str(tmp_path / "run.pcap")
    nanet("generate", "--detector", detector, "--events", 5000, "--out", capture)
    found = []
    for device in ("cpu", "cuda:0"):
        config = Config()
        config.set(DetectorFile, detector=detector)
        config.set(Trigger, device=device, algorithm=algorithm)
        config.set(Card, merge=merge)
        settings = core_options(config) | {"port": 58913, "detect_merged": False, "in_the_loop": True}
        result = replay_files([capture], settings, mtp=str(tmp_path / "answers.pcap"))
        assert result["device"] == device and "device_failed" not in result and result["account_closes"]
        apart = ("elapsed_s", "events_per_s", "latency_us", "device", "host", "progress")
        counts = {key: value for key, value in result.items() if key not in apart}
        packets = [bytes(frame) for _, frame, _ in _core.wire.PcapReader(str(tmp_path / "answers.pcap"))]
        found.append((packets, counts))
    assert len(found[0][0]) > 50 and found[0][1]["rings"] > 1000
    assert not merge or found[0][1]["frames_unmerged"] < found[0][1]["frames_in"]
    assert found[0] == found[1]


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
@pytest.mark.parametrize("mailbox", ["auto", "pinned", "off"])
@pytest.mark.parametrize("algorithm", ["math", "multiring"])
def test_live_with_a_merging_card(algorithm, mailbox):
    options = ["--merge", "--device", "cuda", "--algorithm", algorithm, "--mailbox", mailbox]
    result = run_chain(2.0, 0.01, pad=True, trigger_options=options)
    assert result.lossless, result.losses
    assert result.trigger["account_closes"] and result.trigger["gpu_faults"] == 0
    assert result.trigger["executor"] == "cuda-persistent"
    assert result.trigger["frames_unmerged"] == 0
    assert result.trigger["primitives_out"] > 100_000


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
def test_live_with_more_than_1952_channels(nanet, tmp_path):
    said = nanet("trigger", "--check", "--detector", "square", "--device", "cuda").stdout
    assert "on cuda:0 (events built on the CPU, rings on the GPU) -> " in said
    nanet(
        "demo", "--detector", "square", "--device", "cuda", "--speed", "0.0005", "--duration", "1",
        "--json", "run.json", timeout=200,
    )  # fmt: skip
    result = json.loads((tmp_path / "run.json").read_text())
    assert (result["device"], result["executor"], result["memory"]) == ("cuda:0", "cuda-batch", "host")
    assert (result["mailbox"], result["gpu_faults"]) == ("off", 0)
    assert result["account_closes"] and result["primitives_out"] > 0
    assert not any(result["bad_packets"].values())
    assert result["readout"]["packets_sent"] == result["packets_in"]
    refused = nanet(
        "trigger", "--check", "--detector", "square", "--device", "cuda", "--mailbox", "pinned", status=2
    )
    assert "trigger.mailbox = 'pinned' with a detector of 4096 channels" in refused.stderr


@pytest.mark.serial
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_frames_dealt_to_two_queues(device):
    """Two GPUs where there are two."""
    options = ["--device", device, "--devices", "2", "--algorithm", "math", "--card-threads", "2"]
    result = run_chain(1.0, 0.01, pad=True, trigger_options=options)
    assert result.lossless, result.losses
    assert result.trigger["account_closes"]
    assert result.trigger["primitives_out"] > 50_000


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
def test_the_monitor_sees_what_the_gpu_did(free_udp_port):
    """Counts over a sample of frames, and events to look at, come from the device."""
    from nanet import _core

    ping = _core.Ping()
    options = {
        "listen": f"127.0.0.1:{free_udp_port()}",
        "send": f"127.0.0.1:{ping.reply_port}",
        "boards": 0,
        "device": "cuda:0",
        "algorithm": "math",
    }
    trigger = _core.Trigger(options)
    trigger.start()
    done = ping.run(options["listen"], False, 2000, 16)
    trigger.request_stop()
    assert trigger.join(10.0)
    result, monitor = trigger.result(), trigger.monitor()
    assert done["wrong"] == done["lost"] == 0
    assert result["account_closes"]
    assert sum(monitor["rings_per_event"]) == result["events_built"]
    assert monitor["sampled_events"] == sum(monitor["hits_per_event"]) > 3000
    assert 10 < len(monitor["events"]) <= 64
    for event in monitor["events"]:
        assert len(event["pm"]) > 0 and sorted(event["pm"]) == list(event["pm"])
        assert len(event["late_ns"]) == len(event["pm"])
        assert abs(sum(event["late_ns"])) <= len(event["pm"]) * 0.05  # the time is their mean


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
@pytest.mark.parametrize("cpu_fallback", [True, False])
def test_a_lost_gpu_is_counted_and_the_cpu_continues(tmp_path, cpu_fallback, free_udp_port, nanet_program):
    """A kernel that faults, in a separate process, since its CUDA context is lost."""
    import json
    import subprocess
    import sys

    script = tmp_path / "fault.py"
    script.write_text(
        f"""
import json
from nanet import _core
ping = _core.Ping()
options = {{"listen": "127.0.0.1:{free_udp_port()}", "send": f"127.0.0.1:{{ping.reply_port}}", "boards": 0,
           "device": "cuda:0", "algorithm": "math", "inject_fault": 2200, "timeout_us": 1000.0,
           "deadline_us": 5000.0, "cpu_fallback": {cpu_fallback}}}
trigger = _core.Trigger(options)
trigger.start()
done = ping.run(options["listen"], False, 500, 16)
trigger.request_stop()
assert trigger.join(20.0)
result = trigger.result()
print(json.dumps({{key: result[key] for key in ("account_closes", "gpu_faults", "gpu_lost", "device_failed",
      "frames_late", "frames_answered", "frames_in")}}))
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=200, check=True
    )
    result = json.loads(done.stdout)
    assert result["account_closes"]
    assert result["gpu_faults"] == result["gpu_lost"] == 1
    assert result["device_failed"]
    assert result["frames_late"] + result["frames_answered"] == result["frames_in"] >= 2500
    assert result["frames_answered"] >= (2300 if cpu_fallback else 2200)
    assert cpu_fallback or result["frames_late"] >= 290


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
def test_a_lost_gpu_comes_back(tmp_path, free_udp_port):
    """A separate process recovers it during the run; the trigger's CUDA context stays lost."""
    import json
    import subprocess
    import sys

    script = tmp_path / "back.py"
    script.write_text(
        f"""
import json
from nanet import _core
from nanet.run import gpu_recovery
ping = _core.Ping()
options = {{"listen": "127.0.0.1:{free_udp_port()}", "send": f"127.0.0.1:{{ping.reply_port}}", "boards": 0,
           "device": "cuda:0", "algorithm": "math", "inject_fault": 2200, "timeout_us": 1000.0,
           "deadline_us": 5000.0, "recovery": gpu_recovery.command()}}
trigger = _core.Trigger(options)
trigger.start()
ping.run(options["listen"], False, 600_000, 16)
before = trigger.result()
trigger.request_stop()
assert trigger.join(20.0)
result = {{key: value for key, value in trigger.result().items() if key.startswith(("gpu_", "frames_"))}}
print(json.dumps({{"before": before["gpu_lost"], "why": before["device_failed"],
      "closes": trigger.result()["account_closes"], "rings": int(sum(trigger.monitor()["rings_per_event"])),
      "events": trigger.result()["events_built"], **result}}))
"""
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["closes"] and result["why"]
    assert result["gpu_faults"] == result["gpu_recoveries"] == 1, result
    assert result["before"] == result["gpu_lost"] == 0
    assert result["frames_late"] + result["frames_answered"] == result["frames_in"] >= 600_000
    assert result["rings"] > 0.9 * result["events"]  # what the recovery process counted is counted in
