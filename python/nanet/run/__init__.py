# SPDX-License-Identifier: Apache-2.0
"""Running programs: core settings, host checks, processes, live view, demo chain."""
