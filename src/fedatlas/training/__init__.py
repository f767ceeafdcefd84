"""The training loop, checkpoints and optima."""
