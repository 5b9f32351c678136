"""How fast Onlooker is, beside its peers and beside the machine: `python -m benchmarks.compare --help`."""
