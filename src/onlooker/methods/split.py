"""MS-PAFL: the model is split, only its public part leaves, and clients check in at random."""

from __future__ import annotations

from typing import Literal

from onlooker.errors import UnpricedError
from onlooker.methods.averaging import Averaging
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep
from onlooker.models import Parts
from onlooker.privacy.terms import Terms


def ms_pafl(
    terms: Terms, descent: LocalDescent, step: ServerStep, parts: Parts, sends: Literal["update", "model"]
) -> Averaging:
    """MS-PAFL (Algorithm 1) in its sound form.

    Client i checks in by its own coin of probability p_i (eq. 12), joins the public part w_p^t that it downloads with
    the private part w_alpha that it kept (eq. 18), trains Q steps on batches of b records, keeps the new private part,
    and clips the public part: its update, or with `sends` = "model" the part itself (eq. 13). Noise comes from the
    clients (eq. 14), from a server or from auxiliary servers. The mean is over the public expected count, or over the
    count that took part (eq. 17); an empty round keeps the model where clients add the noise or the count is realised.
    A client that sits out keeps its private part as it was.

    Guarantee: client level (the paper's sensitivity of 2C bounds any change of a client's data), each observer's
    epsilon being the ledger's; the private part is not sent, which is all that is claimed of it. At record level the
    drawing of records amplifies only if nothing is kept, that is if no part is private: a private part carries every
    earlier record, without noise, into later rounds (rule 6).

    Raises:
        UnpricedError: if the terms guard persons or nobody.
    """
    if terms.unit not in ("client", "record"):
        raise UnpricedError(
            f'task.method = "ms-pafl" guards clients or records, so privacy.unit = "{terms.unit}" must be "client" '
            'or "record".'
        )
    return Averaging(terms, descent, step, parts, sends)
