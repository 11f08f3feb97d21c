# SPDX-License-Identifier: Apache-2.0
"""Torus: traffic sweeps of the event-driven model, published curves of APEnet+, lattice-QCD balance."""
