"""Onlooker: differentially private federated learning that prints one epsilon for every observer."""

import os

__version__ = "0.1.0"

# Before torch is imported: threads that wait sleep. GNU OpenMP has them spin, which makes two threads beside any other
# busy process tens of times slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
