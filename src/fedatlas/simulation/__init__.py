"""What is simulated around the mathematics: the network between server and clients."""
