# SPDX-License-Identifier: Apache-2.0
"""nanet: network -> GPU -> network in microseconds.

Importing the package loads nothing heavy; the compiled core is `nanet._core`.
"""

__version__ = "0.1.0"  # single source of the version, also for CMakeLists.txt and the wheel
