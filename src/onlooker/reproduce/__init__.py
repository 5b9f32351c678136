"""The papers' figures and tables drawn anew: what is printed, and beside it what holds."""

from onlooker.reproduce.command import reproduce

__all__ = ["reproduce"]
