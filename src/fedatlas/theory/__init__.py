"""Theorems on runs: constants of problems, step bounds, and what they promise.

Apart from training: a better constant changes no run.
"""
