# SPDX-License-Identifier: Apache-2.0
"""The quality report: every algorithm and an oracle on the same generated events, side by side.

samples: generate and replay; oracle: a fit given the right hits; curves: figures against something;
results: all of it as one dictionary; figures and page: that dictionary as pictures and Markdown.
"""
