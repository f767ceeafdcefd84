"""Losses, gradients, networks, minibatches and memory; knows no federation."""
