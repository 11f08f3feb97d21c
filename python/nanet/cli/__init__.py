# SPDX-License-Identifier: Apache-2.0
"""The `nanet` command line: one module per command."""

from nanet.cli.app import main

__all__ = ["main"]
