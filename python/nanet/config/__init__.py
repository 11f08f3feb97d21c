# SPDX-License-Identifier: Apache-2.0
"""Options, their declaration, and the TOML file."""
