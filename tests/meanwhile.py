"""What clients may do before they train, in whichever process plays them, for tests of what is lost and found."""

import math
import os
import signal
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np

from onlooker.errors import ModelError


@dataclass(frozen=True)
class Meanwhile:
    """A method of which clients, or those with these labels, do something else first."""

    method: object
    act: object
    labels: object = None

    def __getattr__(self, name):
        return getattr(self.method, name)

    def __reduce__(self):
        return Meanwhile, (self.method, self.act, self.labels)

    def local(self, received, kept, examples, stream):
        if self.labels is None or np.array_equal(examples.labels, self.labels):
            self.act()
        return (yield from self.method.local(received, kept, examples, stream))


def meanwhile(study, act, client=None):
    """The study in which clients do this first, or one of them."""
    labels = None if client is None else study.federation.clients[client].labels
    return replace(study, method=Meanwhile(study.method, act, labels))


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def refused():
    raise ModelError("a sentence.")


def unheard_of():
    class Unknown(Exception):
        """Cannot travel, for nobody else has it."""

    raise Unknown("what happened")


def noted(folder, what):
    """True for the first, of all processes, who notes it."""
    try:
        os.close(os.open(folder / what, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def machine_here():
    """The name of the Ray machine that this process is on."""
    import ray

    return ray.get_runtime_context().get_node_id()


def wide(shape, outputs):
    """A network whose sums are too big for Ray to send them along with its messages: they stay where they were made."""
    from torch import nn

    layers = {"flatten": nn.Flatten(), "hidden": nn.Linear(math.prod(shape), 512), "relu": nn.ReLU()}
    return nn.Sequential(OrderedDict(layers | {"head": nn.Linear(512, outputs)}))
