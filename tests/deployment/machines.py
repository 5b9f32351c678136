"""Several raylets on this machine, each as good as a machine of its own, in a process that is told what to do.

It answers each line with one: `add` with the name of a machine of one processor, `remove NAME` with that name. The
first line that it prints is the address. What is left of them ends with its input.
"""

import sys

from ray.cluster_utils import Cluster

MACHINE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


def main() -> None:
    cluster = Cluster(True, head_node_args=MACHINE | {"include_dashboard": False})
    machines = {}
    try:
        print(cluster.address, flush=True)
        for line in sys.stdin:
            order, _, name = line.strip().partition(" ")
            if order == "add":
                machine = cluster.add_node(**MACHINE)
                name = machine.node_id
                machines[name] = machine
            else:
                cluster.remove_node(machines.pop(name), allow_graceful=False)
            print(name, flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
