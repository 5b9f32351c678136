"""Cohorts of a fixed size: the price where drawing one unit displaces another (rule 2b).

Let S be a uniform subset of m of N units, q = m/N < 1, and the release the sum of the rows of S, each of norm
at most C, plus Gaussian noise. D holds the subject's row x; D' holds x' in its place; P and Q are their
releases.

*Lemma.* For g >= 1 and gamma = 1 + (g - 1)/q, with distances in standard deviations of the noise,

    H_g(P || Q) <= q sup_p [p - (gamma - g) F(p, max_j |x - x_j|) - g F(p, |x - x'|)],

where x_j are the other units' rows and F(p, d) = Phi(Phi^-1(p) - d).

*Proof.* Given that the subject is not in S, both releases have one distribution w0; given that it is, they
have w1 and w1'. So P = (1-q) w0 + q w1 and Q = (1-q) w0 + q w1', hence P - g Q = q [w1 - (gamma - g) w0 - g
w1'] (advanced joint convexity: Balle, Barthe, Gaboardi 2018, Theorem 2). Draw a set R of m - 1 of the other
units, and one unit j outside R. Then w1, w0 and w1' are the same mixture, over (R, j), of Gaussians about s +
x, s + x_j and s + x', where s is the sum of R. For any event A and each (R, j), let p be its probability
under the first. By Neyman and Pearson, the second gives A at least F(p, |x - x_j|) and the third at least
F(p, |x - x'|); F falls as the distance grows. So the bracket is at most that of the lemma for each (R, j),
and for their mixture.

Equality holds, by half-lines A, where all rows lie on one line with x_j and x' on the same side of x. So for
each g the curves below are attained by some neighbours, and no smaller curves hold for all. Largest values of
convex functions, they are convex. For g < 1 use H_g(P || Q) = 1 - g + g H_(1/g)(Q || P).
"""

from __future__ import annotations

import math

from onlooker.privacy.losses import (
    Floats,
    Pair,
    difference,
    gaussian,
    log_excess,
    log_phi,
    log_sum,
    outside_sampling,
    sampled_deviation,
    sampled_reach,
)


def zeroed(rate: float, shift: float) -> Pair:
    """The subject's row against zero; `shift` is C over the standard deviation of the noise.

    Forward, |x - x_j| <= 2C and |x - x'| <= C: the curve of (1-q) N(0) + q N(2C) against (1-q) N(0) + q N(C),
    which is what happens where all others send -C and the subject C. Backward, a zero row is at most C from
    x_j and from x: the curve of (1-q) N(0) + q N(C) against N(0), which is what happens where everyone sends
    C.
    """
    stay, go = math.log1p(-rate), math.log(rate)

    def forward(losses: Floats) -> Floats:
        # The densities' ratio is g at one point t, where e^(t shift) solves a quadratic equation.
        excess = log_excess(losses)
        linear = losses - shift**2 / 2
        root = log_sum(2 * linear, math.log(4) + stay - go + excess - 2 * shift**2) / 2
        cut = (2 * shift**2 - math.log(2) + log_sum(linear, root)) / shift
        log_loss = log_sum(stay + excess + log_phi(-cut), go + losses + log_phi(shift - cut))
        return difference(go + log_phi(2 * shift - cut), log_loss)

    def backward(losses: Floats) -> Floats:
        return rate * gaussian(outside_sampling(losses, rate), shift)

    return Pair(forward, backward, sampled_reach(rate, 2 * shift), sampled_deviation(rate, 2 * shift) / 2)


def replaced(rate: float, shift: float) -> Pair:
    """The subject's row against any other: all distances are at most 2C.

    So both curves are q H_gamma(N(2C) || N(0)). They are those of Zhu, Dong and Wang (2022) for sampling
    without replacement.
    """

    def curve(losses: Floats) -> Floats:
        return rate * gaussian(outside_sampling(losses, rate), 2 * shift)

    return Pair(curve, curve, sampled_reach(rate, 2 * shift), sampled_deviation(rate, 2 * shift))
