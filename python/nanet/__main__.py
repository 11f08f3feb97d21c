# SPDX-License-Identifier: Apache-2.0
"""`python -m nanet` is `nanet`."""

import sys

from nanet.cli.app import main

sys.exit(main())
