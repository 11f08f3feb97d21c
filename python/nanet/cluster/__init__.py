# SPDX-License-Identifier: Apache-2.0
"""Many captures on many processes: pools of workers, resumable units of work, tasks of the commands.

Lower layers first: `units` (one unit, its files and its record), `pool` (this process, or Dask), `batch`
(a list of units on a pool), and one module per command.
"""
