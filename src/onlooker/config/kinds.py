"""The methods by name: what each needs by default, and how it is built. A new method is one row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from onlooker.config.schema import Configuration
from onlooker.errors import ConfigError
from onlooker.methods.decouple import FedDecouple
from onlooker.methods.descent import LocalDescent
from onlooker.methods.dpsgd import DPSGD
from onlooker.methods.fedavg import DPFedAvg, FedAvg
from onlooker.methods.method import Method, ServerStep
from onlooker.privacy.published import printed_epsilon
from onlooker.privacy.terms import Terms
from onlooker.types import Unit


@dataclass(frozen=True)
class Kind:
    """A method as the configuration knows it.

    Attributes:
        make: the method under its terms, with the training that the file asks for.
        unit: the unit that it guards unless the file says otherwise.
        sampling: the client sampling unless the file names one.
        shares: True if rows are summed by auxiliary servers even where the file has no [servers].
        by_records: True if silos draw records and a row is a sum over them.
        printed: what the method's paper prints as the price of these terms, in a sentence that says why it is none.
    """

    make: Callable[[Terms, Configuration], Method]
    unit: Unit
    sampling: str = "poisson"
    shares: bool = False
    by_records: bool = False
    printed: Callable[[Terms], str] = lambda terms: ""


def _descent(configuration: Configuration) -> LocalDescent:
    training = configuration.training
    steps = training.steps or (None if training.epochs else 5)
    return LocalDescent(
        steps=steps,
        epochs=training.epochs,
        batch_size=training.batch_size,
        optimizer=training.optimizer,
        learning_rate=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )


def _server_step(configuration: Configuration) -> ServerStep:
    training = configuration.training
    return ServerStep(training.server_learning_rate, training.server_momentum)


def _dpsgd(terms: Terms, configuration: Configuration) -> Method:
    training = configuration.training
    rate = training.learning_rate * training.server_learning_rate
    momentum = training.server_momentum or training.momentum
    return DPSGD(terms, ServerStep(rate, momentum), training.weight_decay)


def _printed_by_feddecouple(terms: Terms) -> str:
    """The epsilon that FedDecouple's section 4.4.5 prints for the noise of one adder and the first client's rate."""
    noise = terms.channels[0].mechanism.noise_multiplier
    if not noise:
        return ""
    rate = terms.sampling.rate_of(0, terms.clients)
    found = printed_epsilon(noise, rate, terms.rounds, terms.delta)
    return (
        f"FedDecouple's section 4.4.5 prints epsilon {found.epsilon:.2f} for this noise; {found.label}: {found.reason}."
    )


KINDS: Mapping[str, Kind] = {
    "fedavg": Kind(lambda terms, file: FedAvg(terms, _descent(file), _server_step(file)), "none"),
    "dp-fedavg": Kind(lambda terms, file: DPFedAvg(terms, _descent(file), _server_step(file)), "client"),
    "feddecouple": Kind(
        lambda terms, file: FedDecouple(terms, _descent(file), _server_step(file)),
        "client",
        shares=True,
        printed=_printed_by_feddecouple,
    ),
    "dp-sgd": Kind(_dpsgd, "record", sampling="all", shares=True, by_records=True),
}

_PLANNED = ("ms-pafl", "dp-ogl", "dp-ogl-plus", "dp-ogl-plus-isolated", "dp-ftrl")


def kind_of(name: str) -> Kind:
    """The method called `name`.

    Raises:
        ConfigError: if there is none, or none yet.
    """
    if name in KINDS:
        return KINDS[name]
    what = "is not built yet" if name in _PLANNED else "is not known"
    raise ConfigError(f'task.method = "{name}" {what}; choose one of {", ".join(KINDS)}.')
