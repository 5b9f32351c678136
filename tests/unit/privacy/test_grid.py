"""Rows on the grid: norms hold in integers, sums of records move by at most the clip, the ring wraps."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onlooker.errors import TermsError
from onlooker.privacy.blocks import squared_norm as floating_norm
from onlooker.privacy.grid import Grid, choose_fraction_bits, clip

DENORMAL = 5e-324
HUGE = 1.7e308


def squared_norm(integers: np.ndarray) -> int:
    return sum(int(value) ** 2 for value in integers)


def exact_squared_norm(row: np.ndarray) -> Fraction:
    return sum((Fraction(value) ** 2 for value in row.tolist()), Fraction(0))


def squared_bound(grid: Grid, bound: float) -> Fraction:
    return (Fraction(bound) / Fraction(grid.clip) * 2**grid.fraction_bits) ** 2


def wild_row(generator: np.random.Generator) -> np.ndarray | float | int:
    """A row of any kind that a client could be made to send."""
    d = int(generator.integers(0, 10))
    row = generator.standard_normal(d) * 10.0 ** generator.integers(-320, 308)
    kind = int(generator.integers(12))
    if kind < 4 and d:
        specials = [np.nan, np.inf, -np.inf, 1e300, -HUGE, DENORMAL, -0.0, 0.0]
        row[generator.integers(d)] = specials[generator.integers(len(specials))]
    if kind == 5:
        return generator.standard_normal(d).astype(np.float16) * np.float16(3)
    if kind == 6:
        return generator.integers(-(2**62), 2**62, d)
    if kind == 7:
        return float(generator.standard_normal() * 10.0 ** generator.integers(-320, 308))
    if kind == 8:
        return generator.standard_normal(d).astype(np.float32)
    if kind == 9:
        return np.full(d, generator.standard_normal())
    return row


def test_the_integer_norm_of_a_hundred_thousand_wild_rows_is_within_the_bound() -> None:
    generator = np.random.default_rng(7)
    grids = [
        Grid(1.0, 16, 32),
        Grid(0.1, 24, 32),
        Grid(3.7e5, 30, 64),
        Grid(1e-280, 3, 32),
        Grid(1e280, 1, 32),
        Grid(1.0, 0, 32),
    ]
    at_the_bound = 0
    for number in range(100_000):
        grid = grids[number % len(grids)]
        bound = grid.clip * (1.0, 0.37, 0.99)[number % 3] if 1e-270 < grid.clip else grid.clip
        encoded = grid.encode_row(wild_row(generator), bound)
        assert encoded.dtype == np.int64
        norm, most = squared_norm(encoded), squared_bound(grid, bound)
        assert norm <= most
        at_the_bound += norm > most * Fraction(9, 10)
    assert at_the_bound > 10_000


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_value_that_is_not_finite_becomes_zero(bad: float) -> None:
    grid = Grid(1.0, 10, 32)
    row = np.array([0.1, bad, 0.2])
    assert grid.encode_row(row).tolist() == grid.encode_sum(row).tolist() == clip([row], 1.0).tolist() == [0] * 3


def test_empty_rows_and_minus_zero() -> None:
    grid = Grid(1.0, 10, 32)
    assert grid.encode_row([]).shape == grid.encode_sum([]).shape == clip([], 1.0).shape == (0,)
    assert grid.encode_row([-0.0]).tolist() == [0]
    assert grid.from_ring(grid.to_ring(grid.encode_row([]))).shape == (0,)


def test_a_row_that_rounding_lifts_over_the_bound_is_rounded_toward_zero() -> None:
    grid = Grid(1.0, 10, 32)
    for d in (5, 4000, 10_000, 30_000, 250_000):
        encoded = grid.encode_row(np.full(d, 1.0))
        lifted = np.rint(np.full(d, 2.0**10 / math.sqrt(d)))
        assert squared_norm(encoded) <= 4**10
        if lifted @ lifted > 4**10:
            assert encoded.tolist() == [int(2**10 / math.sqrt(d))] * d


def test_a_long_row_keeps_its_direction_and_nearly_all_of_the_bound() -> None:
    grid = Grid(1.0, 20, 32)
    row = np.random.default_rng(8).standard_normal(100_000) * 1e200
    decoded = grid.decode(grid.encode_row(row))
    assert 1 - 1e-5 < np.linalg.norm(decoded) <= 1
    direction = row / 1e200 / np.linalg.norm(row / 1e200)
    assert np.linalg.norm(decoded - direction) < math.sqrt(100_000 / 12) / 2**20 * 1.1 + 1e-5


@pytest.mark.parametrize("fraction_bits", [12, 14, 18])
def test_a_row_at_the_bound_keeps_all_of_it_but_two_units(fraction_bits: int) -> None:
    """The scaling before makes up for what rounding adds, which is 10 units at 12 bits."""
    row = np.random.default_rng(9).standard_normal(1_000_000)
    encoded = Grid(1.0, fraction_bits, 32).encode_row(row)
    norm = math.sqrt(squared_norm(encoded))
    assert norm == pytest.approx(2**fraction_bits - 2, abs=1.5)


def test_a_bound_above_the_clip_is_refused() -> None:
    with pytest.raises(TermsError, match="bound = 1.5 must be at most the clip of the grid, 1.0"):
        Grid(1.0, 10, 32).encode_row([1.0], 1.5)


@given(
    row=hnp.arrays(np.float64, st.integers(0, 30), elements=st.floats(-1, 1)),
    fraction_bits=st.integers(6, 30),
    size=st.floats(1e-6, 1e6),
)
def test_a_short_row_comes_back_within_half_a_unit(row: np.ndarray, fraction_bits: int, size: float) -> None:
    grid = Grid(size, fraction_bits, 64)
    row = row * size / 8
    unit = size / 2**fraction_bits
    error = np.abs(grid.decode(grid.encode_row(row)) - row)
    assert np.all(error <= unit / 2 * (1 + 1e-6))
    assert np.all(np.abs(grid.decode(grid.encode_sum(row * 1000)) - row * 1000) <= unit / 2 * (1 + 1e-4))


def test_an_impossible_sum_is_clamped_and_not_undefined() -> None:
    grid = Grid(1e-200, 30, 64)
    assert grid.encode_sum([1e300, -1e300, 1e-200]).tolist() == [2**62, -(2**62), 2**30]


def moves(grid: Grid, records: list[np.ndarray], order: np.random.Generator) -> list[int]:
    """The squared change of the rounded sum for each record left out, summed in any order."""

    def encoded(kept: list[np.ndarray]) -> np.ndarray:
        total = np.zeros_like(records[0])
        for index in order.permutation(len(kept)):
            total = total + kept[index]
        return grid.encode_sum(total)

    whole = encoded(records)
    return [squared_norm(whole - encoded(records[:place] + records[place + 1 :])) for place in range(len(records))]


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 60),
    count=st.integers(1, 12),
    spare_bits=st.integers(0, 6),
    size=st.sampled_from([1.0, 0.1, 37.5, 1e-4]),
    spread=st.sampled_from([0.0, 1.0, 30.0]),
)
def test_leaving_a_record_out_moves_the_rounded_sum_by_at_most_the_clip(
    seed: int, d: int, count: int, spare_bits: int, size: float, spread: float
) -> None:
    generator = np.random.default_rng(seed)
    grid = Grid(size, math.ceil(math.log2(2 * math.sqrt(d))) + spare_bits, 32)
    bound = grid.record_bound(d, count)
    gradients = generator.standard_normal((count, d)) * 10 ** (spread * generator.uniform(-1, 1, (count, d)))
    records = [clip([gradient.astype(np.float32)], bound) for gradient in gradients]
    assert all(moved <= 4**grid.fraction_bits for moved in moves(grid, records, generator))


@pytest.mark.parametrize(("d", "fraction_bits"), [(100, 6), (400, 7), (2500, 9)])
def test_records_at_the_bound_placed_so_that_every_coordinate_rounds_up(d: int, fraction_bits: int) -> None:
    """The worst case: clipped to the clip they move the sum too far, to the record bound not."""
    grid = Grid(1.0, fraction_bits, 32)
    limit = 4**fraction_bits
    worst = {}
    for name, bound in (("clip", 1.0), ("record", grid.record_bound(d, 2))):
        step = clip([np.ones(d)], bound)
        moved = step[0] * 2**fraction_bits
        # The other record brings each coordinate to where adding `step` crosses one more half than it need.
        places = [
            (0.5 - 1e-9) / 2**fraction_bits,
            (0.5 + 1e-9 - moved % 1) / 2**fraction_bits,
            (0.5 - moved % 1 / 2) / 2**fraction_bits,
        ]
        others = [np.full(d, place) for place in places]
        worst[name] = max(
            max(moves(grid, [step, other], np.random.default_rng(0))[0] for other in others),
            max(squared_norm(grid.encode_sum(other + step) - grid.encode_sum(other)) for other in others),
        )
    assert worst["record"] <= limit < worst["clip"]


def test_the_record_bound_is_what_its_proof_says() -> None:
    d, records, size = 26_010, 60_000, 1.5
    grid = Grid(size, 14, 32)
    u = Fraction(1, 2**53)
    taken = Fraction(math.isqrt(d * 10**12)) / 10**6
    floats = (1 + (d + 8) * u) * (1 + 7 * records**2 * u)
    exact = Fraction(size) * (1 - taken / 2**14) / floats
    bound = grid.record_bound(d, records)
    assert float(exact) * (1 - 1e-9) < bound < exact
    assert grid.record_bound(d, 10 * records) < bound
    assert grid.record_bound(2 * d, records) < bound


@pytest.mark.parametrize(("d", "records"), [(10_000, 10), (4, 10**9)])
def test_a_grid_that_leaves_nothing_for_a_record_is_refused(d: int, records: int) -> None:
    with pytest.raises(TermsError, match=f"max-records = {records} and {d} parameters .* would do"):
        Grid(1.0, 7, 32).record_bound(d, records)


@pytest.mark.parametrize("ring_bits", [32, 64])
def test_the_ring_wraps_at_its_half(ring_bits: int) -> None:
    grid = Grid(1.0, 10, ring_bits)
    half = 2 ** (ring_bits - 1)
    values = np.array([0, 1, -1, half - 1, -half], dtype=np.int64)
    assert grid.from_ring(grid.to_ring(values)).tolist() == values.tolist()
    over = grid.to_ring(values) + grid.to_ring(np.array([1, -1, 1, 1, -1], dtype=np.int64))
    assert grid.from_ring(over).tolist() == [1, 0, 0, -half, half - 1]
    assert grid.to_ring(values).dtype.itemsize * 8 == ring_bits
    with pytest.raises(ValueError, match="no values of type"):
        grid.from_ring(values.astype(np.uint16))


@given(st.lists(hnp.arrays(np.float64, 7, elements=st.floats(-3, 3)), min_size=1, max_size=8))
def test_sums_in_the_ring_are_sums_on_the_grid(rows: list[np.ndarray]) -> None:
    grid = Grid(1.0, 20, 32)
    encoded = [grid.encode_row(row) for row in rows]
    ring = np.zeros(7, dtype=np.uint32)
    for row in encoded:
        ring = ring + grid.to_ring(row)
    assert np.array_equal(grid.from_ring(ring), np.sum(encoded, axis=0))


@given(
    ring_bits=st.sampled_from([32, 64]),
    rows=st.integers(1, 10**6),
    noise_multiplier=st.floats(0, 100),
    servers=st.integers(1, 5),
)
def test_the_fraction_bits_are_the_most_that_fit_a_quarter_of_the_ring(
    ring_bits: int, rows: int, noise_multiplier: float, servers: int
) -> None:
    chosen = choose_fraction_bits(ring_bits, rows, noise_multiplier, servers, dimension=1, unit="client")
    widest = rows + 6 * noise_multiplier * math.sqrt(servers)
    assert 2**chosen * widest <= 2 ** (ring_bits - 2)
    assert chosen == 30 or 2 ** (chosen + 1) * widest > 2 ** (ring_bits - 2) * (1 - 1e-9)


@pytest.mark.parametrize(("unit", "loss"), [("client", 0.1), ("none", 0.1), ("record", 0.25), ("person", 0.25)])
def test_a_ring_too_narrow_for_the_loss_is_refused(unit: str, loss: float) -> None:
    refused = accepted = 0
    for dimension in (1, 10, 10**3, 26_010, 10**6, 6_500_000, 10**9):
        for rows in (1, 10, 10**3, 10**5, 10**7, 10**9):
            fitting = 30 - math.ceil(math.log2(rows + 6 * 2.0 * math.sqrt(2)))
            lost = (
                math.sqrt(dimension) / 2.0**fitting if unit in ("record", "person") else dimension / (24 * 4.0**fitting)
            )
            if fitting >= 0 and lost <= loss:
                assert choose_fraction_bits(32, rows, 2.0, 2, dimension=dimension, unit=unit) == min(fitting, 30)
                accepted += 1
            else:
                with pytest.raises(TermsError, match=r"servers.ring-bits = 32 is too narrow.*64 would do\."):
                    choose_fraction_bits(32, rows, 2.0, 2, dimension=dimension, unit=unit)
                refused += 1
    assert refused > 5 and accepted > 5


@pytest.mark.parametrize(("unit", "most"), [("client", math.floor(0.1 * 24 * 4**10)), ("record", 256**2)])
def test_the_loss_is_refused_from_the_first_parameter_too_many(unit: str, most: int) -> None:
    """With 2^20 rows ten bits are left: d / (24 4^10) = 0.1, or sqrt(d) / 2^10 = 0.25, is the most."""
    assert choose_fraction_bits(32, 2**20, 0.0, 2, dimension=most, unit=unit) == 10
    with pytest.raises(TermsError, match="too narrow"):
        choose_fraction_bits(32, 2**20, 0.0, 2, dimension=most + 1, unit=unit)


def test_what_no_ring_holds_is_refused_with_another_remedy() -> None:
    with pytest.raises(TermsError, match="64 is too narrow.*fewer rows, less noise or fewer parameters would do"):
        choose_fraction_bits(64, 2**62, 1.0, 2, dimension=1000, unit="record")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"ring_bits": 16}, "ring-bits = 16"),
        ({"fraction_bits": 31}, "fraction-bits = 31"),
        ({"fraction_bits": -1}, "fraction-bits = -1"),
        ({"clip": 0.0}, "clip = 0.0"),
        ({"clip": math.nan}, "clip = nan"),
        ({"clip": math.inf}, "clip = inf"),
        ({"clip": 1e-300}, "clip = 1e-300"),
    ],
)
def test_an_impossible_grid_is_refused(changed: dict[str, float], named: str) -> None:
    with pytest.raises(TermsError, match=named):
        Grid(**{"clip": 1.0, "fraction_bits": 10, "ring_bits": 32, **changed})


LAYERS = st.lists(
    st.one_of(
        hnp.arrays(
            np.float64,
            hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
            elements=st.floats(width=64),
        ),
        hnp.arrays(np.float16, hnp.array_shapes(min_dims=0, max_dims=2, max_side=4)),
        hnp.arrays(np.int64, hnp.array_shapes(min_dims=0, max_dims=2, max_side=4)),
        hnp.arrays(np.bool_, hnp.array_shapes(min_dims=0, max_dims=2, max_side=4)),
        st.floats(),
        st.integers(-(2**70), 2**70).map(float),
    ),
    max_size=4,
)


@settings(max_examples=500)
@given(layers=LAYERS, bound=st.one_of(st.floats(1e-3, 1e3), st.sampled_from([1e-280, 1e280])))
def test_a_clipped_row_is_within_the_bound_in_exact_arithmetic(layers: list, bound: float) -> None:
    flat = np.concatenate([np.empty(0), *(np.asarray(layer, dtype=np.float64).ravel() for layer in layers)])
    row = clip(layers, bound)
    assert row.dtype == np.float64 and row.shape == flat.shape
    assert exact_squared_norm(row) <= Fraction(bound) ** 2
    if not np.isfinite(flat).all():
        assert not row.any()
    elif exact_squared_norm(flat) <= (Fraction(bound) * (1 - Fraction(1, 10**12))) ** 2:
        assert np.array_equal(row, flat)
    else:
        assert exact_squared_norm(row) >= (Fraction(bound) * (1 - Fraction(1, 10**12))) ** 2


@pytest.mark.parametrize(("value", "bound"), [(1.0, 1e-3), (1 / 3, 7.0), (1e300, 1e-3), (1e-270, 1e-279)])
def test_a_million_equal_values_are_within_the_bound_too(value: float, bound: float) -> None:
    row = clip([np.full(1_000_000, value)], bound)
    assert len(set(row.tolist())) == 1
    assert 1 - Fraction(1, 10**8) < 1_000_000 * (Fraction(float(row[0])) / Fraction(bound)) ** 2 <= 1


def test_one_norm_covers_all_layers() -> None:
    layers = [np.array([[3.0, 0.0]]), np.float16(4), 0]
    assert clip(layers, 2.5) == pytest.approx([1.5, 0, 2, 0], rel=1e-12)
    with pytest.raises(TermsError, match="clip = -1.0"):
        clip(layers, -1.0)


def test_the_last_unit_over_the_bound_is_taken_back():
    """Sixty-five coordinates just above a half would be 65 squared units where 64.5 are allowed."""
    grid = Grid(1.0, 4, 32)
    bound = 8.03 / 16
    row = np.full(65, 0.501 / 16)
    assert np.rint(row * 16).sum() == 65 and np.linalg.norm(row) < bound * 0.7
    encoded = grid.encode_row(row, bound)
    assert squared_norm(encoded) <= squared_bound(grid, bound) < 65


def test_a_coarse_grid_keeps_half_of_a_row():
    assert Grid(1.0, 1, 32).encode_row([1.0]).tolist() == [1]


@pytest.mark.parametrize(("bits", "d", "most"), [(4, 100, 1), (30, 1, 40_000_000)])
def test_less_than_half_of_a_record_is_refused(bits, d, most):
    """1 - 10/16 of the clip is left on the grid, or 1/2.24 of it after the floats of so many records."""
    with pytest.raises(TermsError, match="less than half of the clip"):
        Grid(1.0, bits, 64).record_bound(d, most)


def test_the_record_bound_is_within_its_proof_in_exact_arithmetic():
    draw = np.random.default_rng(3)
    u = Fraction(1, 2**53)
    for _ in range(300):
        root, most, clip = int(draw.integers(1, 1000)), int(draw.integers(1, 10**5)), float(draw.uniform(0.1, 10))
        bound = Fraction(Grid(clip, 25, 64).record_bound(root**2, most))
        floats = (1 + (root**2 + 8) * u) * (1 + 7 * most**2 * u)
        moved = bound * floats * 2**25 / Fraction(clip) + root
        assert 2**25 * (1 - Fraction(1, 2**40)) < moved <= 2**25


def test_a_row_whose_float_norm_is_the_bound_is_scaled_all_the_same():
    """Its true norm may be above: in exact arithmetic none is after the clip."""
    draw, over = np.random.default_rng(4), 0
    for size in (3, 50, 1000):
        for _ in range(40):
            row = draw.normal(size=size)
            row /= np.linalg.norm(row)
            squared = exact_squared_norm(row)
            over += bool(math.sqrt(np.square(row).sum()) <= 1 < squared)
            assert exact_squared_norm(clip([row], 1.0)) <= 1
    assert over > 10


def test_a_ring_of_64_bits_is_proposed_where_it_just_suffices():
    shape = {"dimension": 2**56, "unit": "record"}
    with pytest.raises(TermsError, match="; 64 would do"):
        choose_fraction_bits(32, 2**32, 0.0, 1, **shape)
    assert choose_fraction_bits(64, 2**32, 0.0, 1, **shape) == 30


@pytest.mark.parametrize("d", [0, 1, 7, 8, 129, 16_383, 16_384, 16_385, 40_001, 131_080, 200_003])
def test_a_norm_taken_in_blocks_is_that_of_the_whole_to_the_last_bit(d: int) -> None:
    row = np.random.default_rng(d).standard_normal(d)
    assert floating_norm(row) == float(np.square(row).sum())
    narrow = row.astype(np.float32)
    assert floating_norm(narrow) == float(np.square(narrow.astype(np.float64)).sum())
    assert math.isnan(floating_norm(np.append(row, np.nan)))
    assert floating_norm(np.append(row, HUGE)) == math.inf


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("d", [1, 3, 4000, 40_000])
def test_a_row_put_into_the_ring_is_the_encoded_row(bits: int, d: int) -> None:
    grid, generator = Grid(0.7, 12, bits), np.random.default_rng(d)
    for row in (
        generator.standard_normal(d) * 1e-3,
        generator.standard_normal(d) * 9,
        np.full(d, 1.0),
        np.full(d, -1e300),
    ):
        for put, encode in ((grid.put_row, grid.encode_row), (grid.put_sum, grid.encode_sum)):
            out = np.full(d, 77, dtype=f"u{bits // 8}")
            put(row, out)
            assert np.array_equal(out, grid.to_ring(encode(row)))


@pytest.mark.parametrize(("fraction_bits", "d", "kept"), [(10, 4**10, True), (10, 4**10 + 1, False), (8, 4**8, True)])
def test_a_row_exactly_at_the_bound_passes_and_one_above_it_does_not(fraction_bits: int, d: int, kept: bool) -> None:
    """All coordinates are rounded up to one unit: the squared norm is d, and no float can be sure of the last unit."""
    encoded = Grid(1.0, fraction_bits, 32).encode_row(np.full(d, 0.95 / 2.0**fraction_bits))
    assert np.array_equal(encoded, np.full(d, int(kept)))
