# SPDX-License-Identifier: Apache-2.0
"""One module per command of `nanet`; the function of the module's name is the command."""
