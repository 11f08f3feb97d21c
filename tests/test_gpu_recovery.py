# SPDX-License-Identifier: Apache-2.0
"""GPU recovery process as a program: command line and refusals."""

import os
import subprocess

from nanet.run import gpu_recovery


def test_it_loads_the_core_alone_and_refuses_what_is_no_block():
    command = gpu_recovery.command()
    assert all(os.path.exists(path) for path in command if path.startswith("/"))
    descriptor = os.memfd_create("not-a-block", 0)
    try:
        os.ftruncate(descriptor, 4096)
        done = subprocess.run(
            [*command, str(descriptor)], pass_fds=[descriptor], env={}, capture_output=True, timeout=60
        )
    finally:
        os.close(descriptor)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


def test_it_ends_with_its_trigger():
    """Without a file descriptor of a live trigger there is nothing to serve."""
    done = subprocess.run([*gpu_recovery.command(), "1000"], capture_output=True, timeout=60)
    assert done.returncode == 2
