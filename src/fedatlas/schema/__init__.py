"""Typed models of what people write: experiments, partitions, graphs, objectives and papers."""
