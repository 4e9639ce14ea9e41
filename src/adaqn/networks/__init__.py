"""Networks, and activations, losses and optimizers by name."""
