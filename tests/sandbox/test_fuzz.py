"""Whatever is sent to the host, its decoders answer with their own faults and errors, and with nothing else.

`python -m benchmarks fuzz` does the same a million times.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz import mutated, rows, split
from benchmarks.fuzztargets import TARGETS, Target
from sandbox.guest import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = [target.name for target in TARGETS]


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_what_is_well_formed_is_taken_whole(target: Target) -> None:
    """The conversations that mutation starts from are what each decoder is there for: it takes every frame."""
    assert [target.take(seed) for seed in target.seeds] == [len(seed) for seed in target.seeds]


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_frames_bring_a_decoder_down(target: Target, data: st.DataObject) -> None:
    """Frames of any bytes, between frames that it knows."""
    known = st.sampled_from([frame for seed in target.seeds for frame in seed])
    cut = st.builds(lambda frame, at, more: frame[:at] + more, known, st.integers(0, 40), st.binary(max_size=40))
    target.take(data.draw(st.lists(known | cut | st.binary(max_size=80), max_size=6)))


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_no_mutation_brings_a_decoder_down(target: Target) -> None:
    """The first of the frames that the benchmark goes on with."""
    rng = random.Random(0)  # noqa: S311 - the same in each run
    for _ in range(500):
        target.take(mutated(rng, rng.choice(target.seeds)))


def test_code_in_crumbs_is_refused_at_the_first() -> None:
    """A compiler that was taken over never lets the host wait, and so never meets a deadline: whole chunks alone are taken."""
    take = next(target.take for target in TARGETS if target.name == "compiled code")
    announced = wire.CODE.pack(wire.CODE_MARK, wire.CODE_BYTES)

    assert take([announced, *[b"x"] * 1000]) == 2


@given(st.lists(st.binary(max_size=100)))
def test_flat_inputs_are_split_as_they_were_joined(frames: Sequence[bytes]) -> None:
    """A fuzzer that knows bytes alone reaches every conversation."""
    assert split(b"".join(len(frame).to_bytes(2, "little") + frame for frame in frames)) == list(frames)


def test_the_benchmark_counts_its_frames_and_finds_no_crash() -> None:
    """Each decoder has its row, and all together took what was asked for."""
    found = [row for row in rows(800, led=False) if row.met is not None]

    assert [row.name for row in found] == [*(f"fuzz: {name}" for name in NAMES), "fuzz: frames in all"]
    assert all("0 crashes" in row.figure for row in found[:-1])
    assert found[-1].met


def test_a_crash_is_found() -> None:
    """A decoder that lets something escape misses its wish, and the frames that did it are printed."""
    weak = Target("weak", lambda frames: len(struct.unpack("<I", frames[0])), ((b"abcd",),))
    (row, _) = rows(50, led=False, targets=(weak,))

    assert row.met is False
    assert "0 crashes" not in row.figure
