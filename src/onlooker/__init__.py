"""Onlooker: differentially private federated learning that prints one epsilon for every observer."""

__version__ = "0.1.0"
