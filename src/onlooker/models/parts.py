"""Which parameters leave a client and which never do: the split of a model into a public and a private part."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onlooker.errors import ConfigError
from onlooker.models.layers import Parameter
from onlooker.privacy.random import Stream

Places = NDArray[np.int64]
"""`int64[k]`: places in the flat vector of parameters, in ascending order."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The two parts of a model's d parameters (MS-PAFL, section III-B: w = (w_alpha, w_p)).

    Attributes:
        public: the d_p places that are trained together; they alone are ever sent.
        private: the d_alpha places that stay on each client, from one round to the next.
        rule: how the split was chosen, in words; public knowledge, and the same for all.
    """

    public: Places
    private: Places
    rule: str = "*"

    @property
    def size(self) -> int:
        """d, the size of the whole."""
        return len(self.public) + len(self.private)

    def join(self, public: NDArray[np.float32], private: NDArray[np.float32]) -> NDArray[np.float32]:
        """The whole vector, `float32[d]`, of `float32[d_p]` and `float32[d_alpha]` (MS-PAFL, eq. 18)."""
        if not len(self.private):
            return public
        whole = np.empty(self.size, dtype=np.float32)
        whole[self.public] = public
        whole[self.private] = private
        return whole

    def sides(self, layout: Sequence[Parameter]) -> list[tuple[str, int, int]]:
        """Each parameter's name with how many of its places are public and how many private."""
        is_public = np.zeros(self.size, dtype=bool)
        is_public[self.public] = True
        counts = [int(is_public[one.offset : one.offset + one.size].sum()) for one in layout]
        return [(one.name, count, one.size - count) for one, count in zip(layout, counts, strict=True)]


def whole(size: int) -> Parts:
    """Everything public: a model that is not split."""
    return Parts(np.arange(size), np.empty(0, dtype=np.int64))


def by_names(layout: Sequence[Parameter], public: Sequence[str], private: Sequence[str]) -> Parts:
    """The parameters whose names match a glob; where only one side has globs, the rest is the other side.

    Raises:
        ConfigError: if a glob matches nothing, a parameter is on both sides or on none, or a side is empty.
    """
    names = [one.name for one in layout]
    on_public, on_private = _matched("public", public, names), _matched("private", private, names)
    both = sorted(on_public & on_private)
    if both:
        raise ConfigError(f'split puts "{both[0]}" on both sides, public and private; leave it on one.')
    if not private:
        on_private = set(names) - on_public
    elif not public:
        on_public = set(names) - on_private
    if left := sorted(set(names) - on_public - on_private):
        raise ConfigError(f'split puts "{left[0]}" on neither side; name it under split.public or split.private.')
    rule = ", ".join(public) if public else f"all but {', '.join(private)}"
    return _checked(layout, [one.name in on_public for one in layout], rule)


def by_ratio(layout: Sequence[Parameter], share: float) -> Parts:
    """A fixed mask over each parameter that makes a share of it public (MS-PAFL, section V-E).

    The paper does not say which places the mask takes: here those that a hash of the parameter's name draws, so that
    every party finds the same ones, whatever the seed of a study.

    Raises:
        ConfigError: if the share leaves a side empty.
    """
    is_public = np.zeros(sum(one.size for one in layout), dtype=bool)
    for one in layout:
        order = np.argsort(_stream(one.name).integers(one.size), kind="stable")
        is_public[one.offset + order[: round(share * one.size)]] = True
    return _checked_places(is_public, f"a share of {share:g} of each parameter, by a fixed mask")


def _stream(name: str) -> Stream:
    return Stream(hashlib.sha256(f"onlooker/mask-per-layer|{name}".encode()).digest())


def _matched(side: str, globs: Sequence[str], names: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for glob in globs:
        matches = fnmatch.filter(names, glob)
        if not matches:
            raise ConfigError(f'split.{side} = "{glob}" matches no parameter; there are {", ".join(names)}.')
        found.update(matches)
    return found


def _checked(layout: Sequence[Parameter], public: Sequence[bool], rule: str) -> Parts:
    sizes = [one.size for one in layout]
    return _checked_places(np.repeat(np.array(public, dtype=bool), sizes), rule)


def _checked_places(is_public: NDArray[np.bool_], rule: str) -> Parts:
    if not is_public.any():
        raise ConfigError(f"split leaves nothing public ({rule}), so that nothing would be learned together.")
    return Parts(np.flatnonzero(is_public), np.flatnonzero(~is_public), rule)
