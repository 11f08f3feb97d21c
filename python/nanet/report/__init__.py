# SPDX-License-Identifier: Apache-2.0
"""Results for people and programs: JSON, terminal tables, plots, the HTML report."""
