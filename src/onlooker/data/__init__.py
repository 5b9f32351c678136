"""Data sets, and how their rows are shared out among clients."""

from onlooker.data.federation import DataSettings, Description, Federation
from onlooker.data.load import NAMES, PARTITIONS, describe, load, rows

__all__ = ["NAMES", "PARTITIONS", "DataSettings", "Description", "Federation", "describe", "load", "rows"]
