"""What has no price, and is therefore refused before any data are read: each with the one sentence that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlooker import _check
from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.channel import Channel
from onlooker.privacy.composition import refuse_unpriced
from onlooker.privacy.matrix import Correlated
from onlooker.privacy.rounding import LEAST_ADDED_SIGMA
from onlooker.privacy.summation import Shared
from onlooker.privacy.topology import Groups

if TYPE_CHECKING:
    from onlooker.privacy.terms import Terms


def refuse_what_has_no_price(terms: Terms) -> None:
    """Refuse, before any data is read, what no row of the table of observers covers."""
    if terms.weights and len(terms.weights) != terms.clients:
        raise TermsError(
            f"data.weights names {len(terms.weights)} weights for data.clients = {terms.clients}; name one each."
        )
    terms.sampling.check(terms.clients, terms.rounds)
    refuse_unpriced(terms.sampling, terms.channels, terms.unit, terms.training)
    _refuse_topology(terms)
    _refuse_counted(terms)
    if len({channel.name for channel in terms.channels}) < len(terms.channels):
        raise TermsError("two channels have one name, by which their noises and masks would be the same.")
    for channel in terms.channels:
        _refuse_channel(terms, channel)


def _refuse_topology(terms: Terms) -> None:
    """Refuse groups where no theorem prices them: they need the client as the unit, zero-out, and secret coins."""
    if not isinstance(terms.topology, Groups):
        return
    terms.topology.check(terms.clients)
    if terms.unit not in ("client", "none"):
        raise UnpricedError(
            f'privacy.unit = "{terms.unit}" has no price in groups, whose guarantee is one of client against client; '
            'write "client".'
        )
    if terms.adjacency == "add-or-remove":
        raise UnpricedError(
            'privacy.adjacency = "add-or-remove" has no price in groups, whose members are public; write "zero-out" or '
            '"replace-one".'
        )
    if terms.sampling.name not in ("poisson", "all") or isinstance(getattr(terms.sampling, "rate", None), tuple):
        raise UnpricedError(
            "[groups] has a price only where the members of a group flip coins of one rate, anew for each group and "
            'round, or all take part: write sampling.clients.name = "poisson" with one rate, or groups.rate.'
        )
    if terms.channels and terms.unit == "none" and terms.groups > 1:
        raise UnpricedError(
            'privacy.unit = "none" is not built for several groups; write "client" and privacy.noise-multiplier = 0.'
        )
    if terms.channels and len(terms.channels) != terms.groups:
        raise TermsError(f"{terms.groups} groups need a channel each, not {len(terms.channels)}.")
    if any(isinstance(channel.mechanism, Correlated) for channel in terms.channels):
        raise UnpricedError(
            "noise that is correlated over rounds has no price in groups, whose theorems need fresh noise in every "
            'round; write privacy.mechanism = "gaussian".'
        )
    # What a client keeps would carry sums without noise into later intervals, past the subject's coin and the cut.
    if terms.within == "shared" and terms.interval > 1 and terms.training.keeps != "nothing":
        raise UnpricedError(
            "clients that keep a part of the model have no price in groups that share sums without noise within an "
            'interval; leave out [split], or use "dp-ogl-plus-isolated".'
        )


def _refuse_counted(terms: Terms) -> None:
    """Refuse a realised divisor where it would tell more than is priced (rule 2b)."""
    if terms.counted == "public":
        return
    if terms.adjacency == "add-or-remove":
        raise UnpricedError(
            'privacy.divisor = "realised" tells how many took part, which is one less for a client that goes; with it '
            'privacy.adjacency must be "zero-out" or "replace-one".'
        )
    if terms.weights:
        raise UnpricedError(
            'privacy.divisor = "realised" with data.weights would tell who took part; leave out the weights.'
        )
    if isinstance(terms.topology, Groups):
        raise UnpricedError('privacy.divisor = "realised" has no price in groups; write "public".')


def _refuse_channel(terms: Terms, channel: Channel) -> None:
    shared = isinstance(channel.summation, Shared)
    if channel.noised_by == "servers" and not shared:
        raise UnpricedError('privacy.noised-by = "servers" needs auxiliary servers; add a [servers] table.')
    if channel.noised_by == "server" and shared:
        raise UnpricedError(
            'privacy.noised-by = "server" has no price where auxiliary servers sum: the coordinator would see the sum '
            'without noise; write "servers".'
        )
    if isinstance(channel.bounds, tuple):
        if len(channel.bounds) != terms.clients:
            raise TermsError(
                f"privacy.clip names {len(channel.bounds)} bounds for data.clients = {terms.clients}; name one each."
            )
        _check.positive(**{"privacy__clip": min(channel.bounds)})
        if channel.grid is not None and min(channel.bounds) * 2**channel.grid.fraction_bits < channel.grid.clip:
            raise TermsError(
                f"privacy.clip = {min(channel.bounds):g} (weights included) is below one unit of the grid, "
                f"2^-{channel.grid.fraction_bits} of the largest, {channel.grid.clip:g}; bring the two nearer."
            )
    elif terms.unit != "none":
        _check.positive(privacy__clip=channel.bounds)
    if terms.unit != "none" and channel.grid is None:
        raise UnpricedError(f'privacy.unit = "{terms.unit}" needs rows on a grid with a bound.')
    if terms.sampling.cover_traffic and channel.noised_by != "servers":
        raise UnpricedError(
            "sampling.clients.cover-traffic = true is priced only where auxiliary servers add the noise; "
            'add a [servers] table and write privacy.noised-by = "servers".'
        )
    if terms.unit != "none":
        _refuse_rows_of_another_unit(terms, channel)
    _refuse_neighbours(terms, channel)
    _refuse_narrow_noise(channel)
    hosts = channel.summation.hosted_by if isinstance(channel.summation, Shared) else ()
    if any(not 0 <= host < terms.clients for host in hosts):
        raise TermsError(f"servers.hosted-by = {list(hosts)} names a client outside 0 to {terms.clients - 1}.")


def _refuse_rows_of_another_unit(terms: Terms, channel: Channel) -> None:
    """Refuse a channel whose rows are bounded for another unit, or by another bound, than the one that is priced."""
    if terms.unit not in (("record", "person") if channel.sums_records else ("client", "record")):
        raise UnpricedError(
            f'privacy.unit = "{terms.unit}" has no price here: a row that is a sum over records or persons is bounded '
            "one by one, and any other row as a whole."
        )
    records = terms.training.records
    if terms.unit == "record" and records is not None and (records.name == "poisson") != channel.sums_records:
        raise UnpricedError(
            f'sampling.records.name = "{records.name}" has no price here: coins decide on records that are clipped one '
            "by one, and batches are drawn where a row is clipped as a whole."
        )
    if not channel.sums_records and terms.unit == "record" and terms.adjacency == "add-or-remove":
        raise UnpricedError(
            'privacy.unit = "record" with privacy.adjacency = "add-or-remove" has no price where a row is clipped as a '
            'whole; write "zero-out" or "replace-one".'
        )
    assert channel.grid is not None
    as_priced = channel.bounds == channel.grid.clip and channel.max_records == terms.training.max_records
    if channel.sums_records and not as_priced:
        raise UnpricedError(
            f"a sum of up to {channel.max_records} {terms.unit}s of bound {channel.bounds} is not what is priced: "
            f"data.max-records = {terms.training.max_records} and privacy.clip = {channel.grid.clip}."
        )


def _refuse_neighbours(terms: Terms, channel: Channel) -> None:
    """Refuse pairs of neighbours that differ in more than what one Gaussian event stands for."""
    if terms.unit == "client" and terms.adjacency == "add-or-remove" and channel.noised_by == "clients":
        raise UnpricedError(
            'privacy.adjacency = "add-or-remove" has no price where privacy.noised-by = "clients": a client that goes '
            'takes its noise along, and noise that is less tells that it went; write "zero-out" or "replace-one".'
        )
    if terms.unit == "client" and terms.adjacency == "add-or-remove" and terms.sampling.name == "fixed-size":
        raise UnpricedError(
            'privacy.adjacency = "add-or-remove" has no price with sampling.clients.name = "fixed-size", where one '
            'that comes takes the place of another, whom observers may know: write "zero-out" or "replace-one", or '
            'name = "poisson".'
        )
    differ = isinstance(channel.bounds, tuple) and len(set(channel.bounds)) > 1
    if terms.sampling.name == "fixed-size" and differ and channel.noised_by != "clients":
        raise UnpricedError(
            'sampling.clients.name = "fixed-size" has a price only where all clients have one bound, for a client '
            "displaces another, whose row may be the longer one; write one privacy.clip without data.weights, or "
            'name = "poisson".'
        )


def _refuse_narrow_noise(channel: Channel) -> None:
    """Refuse to claim what several adders make up together where their grid is too coarse to add up (rule 8)."""
    if 0 < channel.adder_deviation < LEAST_ADDED_SIGMA and channel.claims_several_adders:
        raise TermsError(
            f"privacy.noise-multiplier = {channel.mechanism.noise_multiplier:g} makes noises of "
            f"{channel.adder_deviation:.2g} units of the grid, and several add up to a Gaussian only from "
            f"{LEAST_ADDED_SIGMA:g} units each; add noise, or widen servers.ring-bits."
        )
