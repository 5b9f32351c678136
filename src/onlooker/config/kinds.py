"""The methods by name: what each needs by default, and how it is built. A new method is one row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from onlooker.config.schema import Configuration
from onlooker.errors import ConfigError
from onlooker.methods.averaging import Averaging
from onlooker.methods.decouple import feddecouple
from onlooker.methods.descent import LocalDescent
from onlooker.methods.dpsgd import DPSGD
from onlooker.methods.fedavg import FedAvg, dp_fedavg
from onlooker.methods.ftrl import dp_ftrl
from onlooker.methods.groups import dp_ogl, dp_ogl_plus, dp_ogl_plus_isolated
from onlooker.methods.method import Method, ServerStep
from onlooker.methods.split import ms_pafl
from onlooker.models import Parts
from onlooker.privacy.published import printed_epsilon
from onlooker.privacy.records import WithoutReplacement, WithReplacement
from onlooker.privacy.terms import Terms
from onlooker.types import Unit


@dataclass(frozen=True)
class Kind:
    """A method as the configuration knows it.

    Attributes:
        make: the method under its terms, with the training that the file asks for, on the parts of its model.
        unit: the unit that it guards unless the file says otherwise.
        sampling: the client sampling unless the file names one.
        shares: True if rows are summed by auxiliary servers even where the file has no [servers].
        by_records: True if silos draw records and a row is a sum over them.
        splits: True if its model may be split.
        in_groups: True if its clients may be in overlapping groups.
        needs_groups: True if they must be.
        intervals: how an interval of epochs shares within groups, where it is one round ("alone" or "shared").
        draws_batches: True if the records of its batches may be drawn as a matter of privacy.
        printed: what the method's paper prints as the price of these terms, in a sentence that says why it is none.
    """

    make: Callable[[Terms, Configuration, Parts], Method]
    unit: Unit
    sampling: str = "poisson"
    shares: bool = False
    by_records: bool = False
    splits: bool = True
    in_groups: bool = True
    needs_groups: bool = False
    intervals: Literal["alone", "shared"] | None = None
    draws_batches: bool = False
    printed: Callable[[Terms], str] = lambda terms: ""


def _descent(terms: Terms, configuration: Configuration) -> LocalDescent:
    training, records = configuration.training, terms.training.records
    steps = training.steps or (None if training.epochs else 5)
    return LocalDescent(
        steps=steps,
        epochs=training.epochs,
        batch_size=training.batch_size,
        optimizer=training.optimizer,
        learning_rate=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        records=records if isinstance(records, (WithoutReplacement, WithReplacement)) else None,
        slots=terms.training.expected_records or 1,
    )


def _server_step(configuration: Configuration) -> ServerStep:
    training = configuration.training
    return ServerStep(training.server_learning_rate, training.server_momentum)


def _averaging(
    method: Callable[[Terms, LocalDescent, ServerStep, Parts], Method],
) -> Callable[[Terms, Configuration, Parts], Method]:
    return lambda terms, file, parts: method(terms, _descent(terms, file), _server_step(file), parts)


def _ms_pafl(terms: Terms, configuration: Configuration, parts: Parts) -> Averaging:
    sends: Literal["update", "model"] = "model" if configuration.privacy.clip_mode == "model" else "update"
    return ms_pafl(terms, _descent(terms, configuration), _server_step(configuration), parts, sends)


def _dpsgd(terms: Terms, configuration: Configuration, parts: Parts) -> Method:
    training = configuration.training
    rate = training.learning_rate * training.server_learning_rate
    momentum = training.server_momentum or training.momentum
    return DPSGD(terms, ServerStep(rate, momentum), parts, training.weight_decay)


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
    "fedavg": Kind(_averaging(FedAvg), "none", splits=False, in_groups=False),
    "dp-fedavg": Kind(_averaging(dp_fedavg), "client"),
    "ms-pafl": Kind(_ms_pafl, "client", draws_batches=True),
    "dp-ogl": Kind(_averaging(dp_ogl), "client", needs_groups=True),
    "dp-ogl-plus": Kind(_averaging(dp_ogl_plus), "client", needs_groups=True, intervals="shared"),
    "dp-ogl-plus-isolated": Kind(_averaging(dp_ogl_plus_isolated), "client", needs_groups=True, intervals="alone"),
    "feddecouple": Kind(_averaging(feddecouple), "client", shares=True, printed=_printed_by_feddecouple),
    "dp-ftrl": Kind(_averaging(dp_ftrl), "client", "cyclic", in_groups=False),
    "dp-sgd": Kind(_dpsgd, "record", "all", shares=True, by_records=True, splits=False, in_groups=False),
}


def kind_of(name: str) -> Kind:
    """The method called `name`.

    Raises:
        ConfigError: if there is none.
    """
    if name in KINDS:
        return KINDS[name]
    raise ConfigError(f'task.method = "{name}" is not known; choose one of {", ".join(KINDS)}.')
