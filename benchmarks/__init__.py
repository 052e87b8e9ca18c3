"""Benchmarks: the reference, the peers and this library on equal inputs, in one run. See README.md beside this file."""
