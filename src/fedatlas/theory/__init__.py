"""Theorems about runs: constants of problems, step bounds, and bounds on runs.

Apart from training: a better constant changes no run.
"""
