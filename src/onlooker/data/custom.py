"""Your own rows, from a function "package.module:function".

It is called with the `DataSettings` and returns either a `Federation`, or a pair of `Examples`: training
rows, which are dealt to clients by `data.partition`, and test rows. `Examples` may say whose each row is; the persons
of such a pair have the same numbers in both parts, those of a `Federation` only within a client.
"""

from __future__ import annotations

import numpy as np

from onlooker._entry import called, resolved
from onlooker.data.federation import (
    DataSettings,
    Description,
    Federation,
    Pool,
    as_arrays,
    checked,
    require_persons,
)
from onlooker.errors import DataError
from onlooker.types import Examples

Custom = Federation | tuple[Pool, Description]


def call(settings: DataSettings) -> Custom:
    """What the function named by `data.name` returns, checked.

    Raises:
        DataError: if it cannot be imported, raises, or returns something else than it should.
    """
    function = resolved(settings.name, "data.name", DataError)
    returned = called(lambda: function(settings), f'data.name = "{settings.name}"', DataError)
    match returned:
        case Federation(description=Description()):
            return _federation(settings, returned)
        case (Examples() as train, Examples() as test):
            return _pool(settings, train, test)
        case _:
            raise DataError(
                f'data.name = "{settings.name}" returned {type(returned).__name__}; return an '
                "onlooker.data.Federation with its Description, or a pair of onlooker.types.Examples."
            )


def _federation(settings: DataSettings, federation: Federation) -> Federation:
    found, name = len(federation.clients), settings.name
    if settings.clients != found:
        raise DataError(f'data.clients = {settings.clients}, but data.name = "{name}" returned {found} clients.')
    description = federation.description
    clients = tuple(checked(c, description, f"client {i} of {name}") for i, c in enumerate(federation.clients))
    if settings.whole_persons:
        for number, client in enumerate(clients):
            require_persons(client, f"client {number} of {name}")
    return Federation(
        clients,
        checked(federation.test, description, f"the test set of {name}"),
        description,
    )


def _pool(settings: DataSettings, train: Examples, test: Examples) -> tuple[Pool, Description]:
    name, uncharged = settings.name, [f'what "{settings.name}" did to the rows is not known here']
    shape = as_arrays(train, f"the training set of {name}").features.shape[1:]
    outputs = 1
    if settings.task == "classification":
        outputs = len(settings.classes)
        if not outputs:
            outputs = _highest(train, name) + 1
            uncharged.append("the number of classes was read from the labels; data.classes would fix it")
    description = Description(name, shape, outputs, settings.task, (), tuple(uncharged))
    pool = Pool(
        checked(train, description, f"the training set of {name}"),
        checked(test, description, f"the test set of {name}"),
    )
    if settings.whole_persons:
        require_persons(train, f"the training set of {name}")
        _refuse_shared_persons(name, train, test)
    return pool, description


def _refuse_shared_persons(name: str, train: Examples, test: Examples) -> None:
    if train.persons is None or test.persons is None:
        return
    shared: list[int] = np.intersect1d(train.persons, test.persons).tolist()
    if shared:
        raise DataError(
            f'data.name = "{name}" returned training and test rows of the person {shared[0]}, which privacy.unit = '
            '"person" cannot have; put all rows of a person on one side.'
        )


def _highest(train: Examples, name: str) -> int:
    labels = np.asarray(train.labels)
    if labels.dtype.kind not in "iu" or not labels.size:
        raise DataError(
            f'data.name = "{name}" returned labels of type {labels.dtype}; return whole numbers from 0, or '
            'write data.task = "regression".'
        )
    return int(labels.max())
