# SPDX-License-Identifier: Apache-2.0
"""Quality report: every algorithm and an oracle on the same generated events, side by side.

evaluate: comparison of rings with the truth; samples: generation and replay; oracle: fit of the true hits;
curves: dependence on hits, radius and others; results: all of it as one dictionary; figures and page: that
dictionary as pictures and Markdown.
"""
