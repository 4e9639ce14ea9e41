"""Names to functions: activations, losses, optimizers, and the network that they make up."""
