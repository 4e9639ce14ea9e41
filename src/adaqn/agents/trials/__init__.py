"""Searches that try hyperparameters one after the other within one run: random search and DEHB."""
