"""Secure aggregation between clients and auxiliary servers, without a network: bytes in, bytes out."""
