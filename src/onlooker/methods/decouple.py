"""FedDecouple: clients compute and share, auxiliary servers add one noise together."""

from __future__ import annotations

from onlooker.errors import UnpricedError
from onlooker.methods.averaging import Averaging, refuse_another_unit
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep
from onlooker.models import Parts
from onlooker.privacy.terms import Terms


def feddecouple(terms: Terms, descent: LocalDescent, step: ServerStep, parts: Parts) -> Averaging:
    """FedDecouple in its sound form: two phases, n non-colluding auxiliary servers, one act of noising a round.

    Phase 1 (the paper's 4.2.1): client k trains, clips its update Delta_k^t = theta_k - theta^t to C (Delta-tilde) and
    cuts it into additive shares, one for each server. Phase 2 (4.2.2): each server adds its own Gaussian noise of
    z C / sqrt(n - t) to the sum of its shares, and the coordinator adds the noisy shares: theta^{t+1} = theta^t + eta_g
    times the released mean, which is noise alone where nobody took part. The paper's servers add half the variance
    each, which leaves a server that subtracts its own noise with half of what was promised; here what is left is the
    full z.

    Guarantee: client level, for at most t = `servers.corrupt` colluding servers; if all collude, none.

    Raises:
        UnpricedError: if the terms guard another unit, or others than the servers add noise.
    """
    refuse_another_unit("feddecouple", terms, '; use "dp-sgd" to guard records')
    if any(channel.noised_by != "servers" for channel in terms.channels):
        raise UnpricedError(
            'task.method = "feddecouple" is one act of noising at the auxiliary servers, so privacy.noised-by must '
            'be "servers".'
        )
    return Averaging(terms, descent, step, parts)
