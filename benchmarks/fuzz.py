"""Hostile frames without end for everything that the host decodes: `python -m benchmarks fuzz [FRAMES]`, a million by default.

Frames come from a seeded generator that mutates conversations which the decoders accept; where `atheris` is installed a share of
them comes from it, led by the coverage of our own modules. A crash prints the target, the seed and the frames.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.fuzztargets import Target

FRAMES = 1_000_000
_ATHERIS_RUNS = 20_000  # for each target
_SHOWN = 2_000
_GROWTH_BYTES = 8 * 2**20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ODD = (
    b"\0",
    b"\xff",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\0\0\0\x80",
    b"\xff" * 8,
    b"../",
    b"/",
    b"\x1b[2J",
    b"\xe2\x80\xae",
    b"\n",
    b'"',
)


def mutated(rng: random.Random, frames: Sequence[bytes]) -> list[bytes]:
    """Return a conversation that is nearly this one."""
    made = list(frames)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(made)) if made else 0
        way = rng.randrange(9)
        if way == 0:
            made.insert(place, rng.randbytes(rng.choice((0, 1, 5, 13, 40, 300))))
        elif not made:
            continue
        elif way == 1:
            made.insert(place, made[rng.randrange(len(made))])
        elif way == 2:  # noqa: PLR2004 - the ways have no names
            del made[place]
        else:
            made[place] = _bent(rng, made[place])
    return made


def _bent(rng: random.Random, frame: bytes) -> bytes:
    at = rng.randint(0, len(frame))
    way = rng.randrange(6)
    if way == 0 and at < len(frame):
        return frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1 :]
    if way == 1:
        return frame[:at]
    if way == 2:  # noqa: PLR2004
        odd = rng.choice(_ODD)
        return frame[:at] + odd + frame[at + len(odd) :]
    if way == 3:  # noqa: PLR2004
        return frame[:at] + rng.choice(_ODD) * rng.choice((1, 1, 2, 50)) + frame[at:]
    if way == 4:  # noqa: PLR2004
        return frame + rng.randbytes(rng.choice((1, 4, 8, 5000)))
    return frame[:at] + rng.randbytes(4) + frame[at + 4 :]


def rows(frames: int = FRAMES, *, led: bool = True, targets: Sequence[Target] = ()) -> Iterator[Row]:
    """Yield one row for each decoder, all by default, then the sum of frames; `led` by coverage once more, where that can be."""
    if not targets:
        from benchmarks.fuzztargets import TARGETS as targets  # noqa: N811, PLC0415 - opens a pipe

    taken_in_all = 0
    for target in targets:
        rng = random.Random(target.name)  # noqa: S311 - to be the same in each run
        _take(target, rng, 2_000)  # so that caches and arenas are there before the first figure
        first, descriptors, began = _memory(), _descriptors(), time.monotonic()
        taken, crashes = _take(target, rng, -(-frames // len(targets)))
        rate = taken / (time.monotonic() - began)
        last = _memory()
        flat = last - first < _GROWTH_BYTES and _descriptors() == descriptors
        taken_in_all += taken
        grown = f"memory {first / 2**20:.1f} to {last / 2**20:.1f} MB"
        for crash in crashes[:3]:
            print(
                crash[:_SHOWN] if len(crash) < _SHOWN else f"{crash[: _SHOWN // 2]}\n...\n{crash[-_SHOWN // 2 :]}",
                file=sys.stderr,
            )
        figure = f"{taken:,} frames, {rate:,.0f}/s, {len(crashes)} crashes, {grown}"
        yield Row(f"fuzz: {target.name}", figure, "none, flat", met=not crashes and flat)
    yield Row("fuzz: frames in all", f"{taken_in_all:,}", f">= {frames:,}", met=taken_in_all >= frames)
    if led:
        yield from _led_by_coverage(targets)


def _take(target: Target, rng: random.Random, frames: int) -> tuple[int, list[str]]:
    taken, crashes = 0, []
    while taken < frames:
        made = mutated(rng, rng.choice(target.seeds))
        try:
            taken += target.take(made)
        except Exception:  # noqa: BLE001 - whatever escapes is the finding
            taken += 1
            crashes.append(f"{target.name}: {made!r}\n{traceback.format_exc()}")
    return taken, crashes


def _memory() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _led_by_coverage(targets: Sequence[Target]) -> Iterator[Row]:
    if importlib.util.find_spec("atheris") is None:
        yield Row("fuzz: atheris", "not measured: not installed (pip install atheris)")
        return
    for target in targets:
        with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as corpus:
            for number, seed in enumerate(target.seeds):
                flat = b"".join(len(frame).to_bytes(2, "little") + frame for frame in seed)
                (Path(corpus) / str(number)).write_bytes(flat)
            options = [f"-runs={_ATHERIS_RUNS}", "-max_len=4096", "-rss_limit_mb=512", f"-artifact_prefix={corpus}/", corpus]
            command = [sys.executable, "-m", "benchmarks.fuzz", target.name, *options]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr[-4000:], file=sys.stderr)
        covered = re.findall(r" cov: (\d+)", done.stderr)
        figure = f"{_ATHERIS_RUNS:,} runs, {covered[-1] if covered else 'no'} branches reached"
        yield Row(f"fuzz: atheris, {target.name}", figure, "no crash", met=done.returncode == 0)


def split(data: bytes) -> list[bytes]:
    """Return the frames that a flat input stands for: each begins with its length in two bytes."""
    frames = []
    while len(data) >= 2:  # noqa: PLR2004 - the length
        end = 2 + int.from_bytes(data[:2], "little")
        frames.append(data[2:end])
        data = data[end:]
    return frames


def _atheris(name: str, arguments: list[str]) -> None:
    """Run one target under atheris; ends the process."""
    import atheris  # noqa: PLC0415 - optional

    with atheris.instrument_imports(include=["sandbox", "harness"]):
        from benchmarks.fuzztargets import TARGETS  # noqa: PLC0415
    target = next(target for target in TARGETS if target.name == name)

    def take(data: bytes) -> None:
        target.take(split(data))

    atheris.Setup([sys.argv[0], *arguments], take)
    atheris.Fuzz()


if __name__ == "__main__":
    _atheris(sys.argv[1], sys.argv[2:])
