"""Our optimizers step as those of torch do, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from onlooker.methods.descent import LocalDescent

SETTINGS = [
    LocalDescent(learning_rate=0.3),
    LocalDescent(learning_rate=0.3, momentum=0.9, weight_decay=1e-2),
    LocalDescent(learning_rate=0.01, optimizer="adam", weight_decay=1e-2),
]


def torch_s(descent: LocalDescent, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if descent.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=descent.learning_rate, weight_decay=descent.weight_decay)
    return torch.optim.SGD(
        parameters, lr=descent.learning_rate, momentum=descent.momentum, weight_decay=descent.weight_decay
    )


def trained(descent: LocalDescent, ours: bool) -> np.ndarray:
    """Two tensors after six steps, of which the second has no gradient in the first and the fourth."""
    generator = torch.Generator().manual_seed(1)
    parameters = [
        nn.Parameter(torch.randn(5, 3, generator=generator)),
        nn.Parameter(torch.randn(4, generator=generator)),
    ]
    optimizer = descent.fresh_optimizer(parameters) if ours else torch_s(descent, parameters)
    for step in range(6):
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        if step in (0, 3):
            parameters[1].grad = None
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in parameters]).numpy()


@pytest.mark.parametrize("descent", SETTINGS, ids=["sgd", "momentum", "adam"])
def test_a_step_is_that_of_torch(descent: LocalDescent) -> None:
    assert trained(descent, ours=True).tobytes() == trained(descent, ours=False).tobytes()


def test_what_is_remembered_counts() -> None:
    found = {
        trained(descent, ours=True).tobytes() for descent in (*SETTINGS, LocalDescent(learning_rate=0.3, momentum=0.9))
    }
    assert len(found) == len(SETTINGS) + 1
