# SPDX-License-Identifier: Apache-2.0
"""Process of the monitor: `python -m nanet.monitor LISTENING LINK TAP` (file descriptors)."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import sys

from aiohttp.http_exceptions import HttpProcessingError

from nanet.monitor.server import serve


def worth_saying(record: logging.LogRecord) -> bool:
    """Drops log messages about malformed HTTP of clients: they would flood the trigger's standard error."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def main() -> None:
    """Serves until the trigger closes its end."""
    listening, link, event_ring = map(int, sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trigger ends first and closes the link
    logging.getLogger("aiohttp.server").addFilter(worth_saying)
    os.nice(10)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1 << 16), most))
    asyncio.run(serve(socket.socket(fileno=listening), socket.socket(fileno=link), event_ring))


if __name__ == "__main__":
    main()
