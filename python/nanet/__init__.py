# SPDX-License-Identifier: Apache-2.0
"""nanet: network -> GPU -> network in microseconds.

Importing the package loads nothing heavy; the compiled core is `nanet._core`.
"""

# Version of a source tree without tags. Wheels carry that of the tags: tools/build/nanet_version.py.
RELEASE = "0.1.0"

try:
    from nanet._version import __version__  # written into wheels
except ImportError:
    __version__ = RELEASE
