# SPDX-License-Identifier: Apache-2.0
"""The monitor: a page, metrics and a log beside a running trigger, in a process of their own.

link.py is the trigger's end and server.py the other one; between them are a socket that drops what does not
fit, and the core's ring of events in shared memory. So nothing that a browser does reaches the trigger.
"""
