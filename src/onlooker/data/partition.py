"""Which training row belongs to which client.

Each function gives one `int64` array of row numbers for each client; every row is in exactly one of them, and
no client is left without a row. They are pure: the same generator state gives the same partition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlooker._check import at_least, positive
from onlooker.errors import DataError

Shares = tuple[NDArray[np.int64], ...]
"""For each client, the numbers of its rows."""


def iid(rows: int, clients: int, generator: np.random.Generator) -> Shares:
    """Rows in random order, cut into parts whose sizes differ by at most 1.

    Raises:
        DataError: on more clients than rows.
    """
    require_enough(rows, clients)
    return tuple(np.array_split(generator.permutation(rows), clients))


def iid_persons(persons: NDArray[np.int64], clients: int, generator: np.random.Generator) -> Shares:
    """Persons in random order, cut into parts whose sizes differ by at most 1; all rows of a person go together.

    Args:
        persons: `int64[n]`, the person of each row.
        clients: how many clients there are.
        generator: draws the order.

    Raises:
        DataError: on more clients than persons.
    """
    names = np.unique(persons)
    if clients > len(names):
        raise DataError(
            f"data.clients = {clients} is more than the {len(names)} persons of the training rows; use at most "
            f"{len(names)}."
        )
    parts = np.array_split(generator.permutation(names), clients)
    return tuple(np.flatnonzero(np.isin(persons, part)) for part in parts)


def dirichlet(labels: NDArray[np.int64], clients: int, alpha: float, generator: np.random.Generator) -> Shares:
    """Clients of equal size (within 1), each with its own class proportions q ~ Dirichlet(alpha p).

    p are the class proportions of the whole set. A class that has run out drops from q, which is renormalised
    over the classes that have rows left. Because the sizes are set first, every client gets at least one row
    at any alpha. Clients are served in random order: those served last must take what is left, and that
    should not be tied to a client's number.

    Reference: Hsu, Qi and Brown (2019), "Measuring the effects of non-identical data distribution
    for federated visual classification", section 3.

    Raises:
        TermsError: unless alpha is finite and above 0.
        DataError: on more clients than rows.
    """
    positive(**{"data.alpha": alpha})
    require_enough(len(labels), clients)
    pools = _rows_of_each_class(labels, generator)
    left = np.array([len(pool) for pool in pools])
    whole = left / len(labels)
    shares: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)] * clients
    for client in generator.permutation(clients):
        size = len(labels) // clients + int(client < len(labels) % clients)
        counts = _class_counts(size, _proportions(whole, alpha, generator), left, generator)
        shares[client] = np.concatenate(
            [pool[rest - count : rest] for pool, rest, count in zip(pools, left, counts, strict=True)]
        )
        left = left - counts
    return tuple(shares)


def _proportions(whole: NDArray[np.float64], alpha: float, generator: np.random.Generator) -> NDArray[np.float64]:
    drawn = generator.dirichlet(alpha * whole)
    if np.isfinite(drawn).all() and drawn.sum() > 0:
        return drawn
    # Where alpha is too small for floating point, the limit of the distribution is one class alone.
    return generator.multinomial(1, whole).astype(np.float64)


def _class_counts(
    size: int,
    proportions: NDArray[np.float64],
    left: NDArray[np.int64],
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """How many rows of each class a client of `size` rows takes, at most those left; `int64[classes]`."""
    counts = np.zeros_like(left)
    while (wanted := size - int(counts.sum())) > 0:
        room = left - counts
        weights = np.where(room > 0, proportions, 0.0)
        if weights.sum() <= 0:
            weights = room.astype(np.float64)
        counts += np.minimum(generator.multinomial(wanted, weights / weights.sum()), room)
    return counts


def pathological(
    labels: NDArray[np.int64], clients: int, classes_per_client: int, generator: np.random.Generator
) -> Shares:
    """Clients with rows of exactly `classes_per_client` classes, each class cut evenly among its clients.

    The sort-and-deal partition of McMahan et al. (2017), "Communication-efficient learning of deep networks
    from decentralized data", section 3, with the cuts moved to the class borders: their shards of equal size
    may hold two classes. Each client in turn takes the classes taken least so far, ties broken at random, so
    that all classes go to equally many clients (within 1).

    Raises:
        TermsError: if `classes_per_client` is below 1.
        DataError: if there are not that many classes, too few clients to hold every class, or too few rows of
            a class.
    """
    at_least(1, **{"data.classes-per-client": classes_per_client})
    pools = _rows_of_each_class(labels, generator)
    if classes_per_client > len(pools):
        raise DataError(
            f"data.classes-per-client = {classes_per_client} is more than the {len(pools)} classes in the "
            f"rows; use at most {len(pools)}."
        )
    if clients * classes_per_client < len(pools):
        raise DataError(
            f"data.clients = {clients} with data.classes-per-client = {classes_per_client} leaves some of "
            f"the {len(pools)} classes to nobody; raise one of them."
        )
    owners = _owners_of_each_class(len(pools), clients, classes_per_client, generator)
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(clients)]
    for pool, holders in zip(pools, owners, strict=True):
        if len(pool) < len(holders):
            raise DataError(
                f"data.clients = {clients} shares a class of {len(pool)} rows among {len(holders)} clients; "
                "use fewer clients or fewer classes-per-client."
            )
        for holder, part in zip(holders, np.array_split(pool, len(holders)), strict=True):
            parts[holder].append(part)
    return tuple(np.concatenate(part) for part in parts)


def _owners_of_each_class(
    classes: int, clients: int, classes_per_client: int, generator: np.random.Generator
) -> list[list[int]]:
    owners: list[list[int]] = [[] for _ in range(classes)]
    for client in range(clients):
        taken = np.array([len(holders) for holders in owners])
        least_taken_first = np.lexsort(np.stack([generator.random(classes), taken]))
        for chosen in map(int, least_taken_first[:classes_per_client]):
            owners[chosen].append(client)
    return owners


def _rows_of_each_class(labels: NDArray[np.int64], generator: np.random.Generator) -> list[NDArray[np.int64]]:
    order = generator.permutation(len(labels))
    return [order[labels[order] == label] for label in np.unique(labels)]


def natural(owners: NDArray[np.int64], clients: int) -> Shares:
    """The rows of each owner, in the order of the file.

    Args:
        owners: `int64[n]`, the owner of each row; their numbers may have gaps.
        clients: what the configuration says; it must be m.

    Raises:
        DataError: unless `clients` is the number of owners found.
    """
    names = np.unique(owners)
    require_count(len(names), clients)
    return tuple(np.flatnonzero(owners == name) for name in names)


def require_count(found: int, clients: int) -> None:
    """Refuse another number of natural clients than was found.

    Raises:
        DataError: naming both.
    """
    if clients != found:
        raise DataError(
            f"data.clients = {clients} does not match the {found} clients found; write clients = {found}, or "
            'choose another partition than "natural".'
        )


def require_enough(rows: int, clients: int) -> None:
    """Refuse fewer than one client, or more clients than rows.

    Raises:
        TermsError: on fewer than one client.
        DataError: on more clients than rows.
    """
    at_least(1, **{"data.clients": clients})
    if clients > rows:
        raise DataError(f"data.clients = {clients} is more than the {rows} training rows; use at most {rows}.")


def held_out(
    owners: NDArray[np.int64], fraction: float, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers for training and for the test, floor(fraction n) at random of each owner's n rows.

    The floor leaves every owner a training row.

    Args:
        owners: `int64[n]`, the owner of each row.
        fraction: share of the test rows, in (0, 1).
        generator: draws the rows.
    """
    order = generator.permutation(len(owners))
    order = order[np.argsort(owners[order], kind="stable")]
    counts = np.unique(owners, return_counts=True)[1]
    place = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept_back = place < np.repeat(np.floor(fraction * counts), counts)
    return np.sort(order[~kept_back]), np.sort(order[kept_back])


def held_out_persons(
    persons: NDArray[np.int64], fraction: float, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers for training and for the test: all rows of floor(fraction m) at random of the m persons.

    Nobody is in both, or the unit "person" would leave a person's test rows unguarded. Persons are drawn from the whole
    set, so a client may be left without any.

    Args:
        persons: `int64[n]`, the person of each row.
        fraction: share of the persons for the test, in (0, 1).
        generator: draws the persons.
    """
    names = np.unique(persons)
    chosen = names[held_out(np.zeros_like(names), fraction, generator)[1]]
    for_test = np.isin(persons, chosen)
    return np.flatnonzero(~for_test), np.flatnonzero(for_test)
