# SPDX-License-Identifier: Apache-2.0
"""Monitor: web page and metrics of a running trigger, in a separate process.

link.py is the trigger's end, server.py the monitor's. They share a socket that drops messages when full, and
the core's ring of event samples in shared memory. Browsers cannot delay the trigger.
"""
