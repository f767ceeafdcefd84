"""What people write: typed models of experiments, partitions, graphs, objectives and papers."""
