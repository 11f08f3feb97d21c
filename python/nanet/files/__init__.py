# SPDX-License-Identifier: Apache-2.0
"""File formats: captures, rings, truth, ROOT and Parquet export."""
