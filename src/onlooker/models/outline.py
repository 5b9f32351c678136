"""What a model holds, said before it is made."""

from __future__ import annotations

from onlooker.models.architectures import network_of
from onlooker.models.layers import Parameter, layout_of_network
from onlooker.types import Task


def outline(name: str, shape: tuple[int, ...], outputs: int, task: Task, symbols: int = 0) -> tuple[Parameter, ...]:
    """The layout of the model that `build` makes of the same arguments, and its refusals.

    A network of ours is known without being made; one that a configuration brings along has to be made, and checked.

    Raises:
        TermsError: if the name is not known.
        ModelError: if the model does not fit the features, or cannot be trained under privacy; with the remedy.

    >>> sum(parameter.size for parameter in outline("mlp", (1, 28, 28), 10, "classification"))
    50890
    """
    if ":" not in name:
        return layout_of_network(network_of(name, shape, outputs, symbols))
    from onlooker.models.builder import build  # with torch, which a plan for a network of ours can do without

    return build(name, shape, outputs, task, symbols).layout
