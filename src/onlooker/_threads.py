"""Imported before torch: make threads that wait sleep.

GNU OpenMP's default is to spin, which makes two threads beside any other busy process tens of times slower than one.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
