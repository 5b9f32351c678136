"""The [evaluation] table, as far as `private = true` makes clients measure the model under noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from onlooker import _check
from onlooker.config.kinds import Kind
from onlooker.config.schema import Configuration
from onlooker.data import Description
from onlooker.errors import ConfigError, TermsError, UnpricedError
from onlooker.methods.measuring import Measuring
from onlooker.methods.method import Method
from onlooker.privacy.measures import Measures
from onlooker.privacy.target import largest
from onlooker.privacy.terms import Terms
from onlooker.types import Unit


def refuse_unpriced(configuration: Configuration, kind: Kind, unit: Unit) -> None:
    """Refuse a private evaluation that has no price, or is not built, and numbers that it cannot go by.

    Raises:
        OnlookerError: one sentence for the first fault.
    """
    table = configuration.evaluation
    if not table.private:
        return
    if unit == "none":
        raise UnpricedError(
            'evaluation.private = true has no noise to hide in where privacy.unit = "none"; leave it out, or use a '
            "method with a guarantee, such as dp-fedavg."
        )
    if configuration.groups is not None:
        raise ConfigError(
            "evaluation.private = true is not built for [groups], whose theorems price one sum for each group; leave "
            "one of them out."
        )
    if unit != "client" and not kind.by_records:
        raise UnpricedError(
            f'evaluation.private = true has no price for privacy.unit = "{unit}" with {configuration.task.method}, '
            'which would measure the records that a round does not draw as well; write "client", or use dp-sgd.'
        )
    if table.given("share") and table.noise_multiplier is not None:
        raise TermsError(
            f"evaluation.share = {table.share} and evaluation.noise-multiplier = {table.noise_multiplier} say the same "
            "thing twice; name one of them."
        )
    if not 0 < table.share < 1:
        raise TermsError(
            f"evaluation.share = {table.share}, the part of a round's price that evaluation takes, must be above 0 and "
            "below 1."
        )
    if table.noise_multiplier is not None:
        _check.positive(evaluation__noise_multiplier=table.noise_multiplier)
    if table.loss_bound is not None:
        _check.positive(evaluation__loss_bound=table.loss_bound)


def refuse_too_dear(configuration: Configuration, terms: Terms, observers: Sequence[str], epsilon: float) -> None:
    """Refuse given noise on measures that leaves nothing of a target for the model.

    Raises:
        TermsError: if the measures cost the target, or more, by themselves.
    """
    given, channel = configuration.evaluation.noise_multiplier, terms.measured_by
    if given is None or channel is None:
        return
    alone = largest(replace(terms, channels=(channel,)), observers)
    if alone >= epsilon:
        raise TermsError(
            f"privacy.epsilon = {epsilon:g} leaves nothing for the model: evaluation.noise-multiplier = {given:g} "
            f"costs {alone:.3g} by itself; raise either, or name evaluation.share in its place."
        )


def multiplier_of(configuration: Configuration, of_model: float) -> float:
    """The noise multiplier of the measures: the one given, or what takes the given share of a round's price.

    With z_e = z sqrt((1 - s) / s) the share s of z_round^-2 = z^-2 + z_e^-2 is that of the measures.
    """
    table = configuration.evaluation
    if table.noise_multiplier is not None:
        return table.noise_multiplier
    return of_model * math.sqrt((1 - table.share) / table.share)


def measuring(method: Method, configuration: Configuration, description: Description) -> Method:
    """The method with its measures, where the file asks for them.

    Raises:
        ConfigError: if losses have no bound that could be taken.
    """
    table = configuration.evaluation
    if not table.private:
        return method
    bound = table.loss_bound
    if bound is None and description.task == "regression":
        raise ConfigError(
            "evaluation.loss-bound is missing; name the squared error that is the largest to be told apart, a public "
            "number such as 4.0 where labels are mapped to [-1, 1]."
        )
    # Twice what a guess costs: an untrained model is within it.
    return Measuring(method, Measures(description.task, bound or 2 * math.log(max(2, description.outputs))))
