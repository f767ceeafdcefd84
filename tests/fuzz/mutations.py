"""Mutations of valid files, drawn from a seeded generator: the same number gives the same bytes."""

import re
import struct
import zlib
from collections.abc import Sequence
from random import Random

LONGEST = 1 << 16

# What counts, sizes and offsets are most often wrong by.
NUMBERS = (0, 1, 2, 127, 128, 255, 256, 1 << 15, (1 << 16) - 1, (1 << 31) - 1, 1 << 31)
NUMBERS += ((1 << 32) - 1, 1 << 40, 1 << 60, (1 << 63) - 1, (1 << 64) - 1)
TEXTS = (
    *("0", "-0", "-1", "1e400", "-1e400", "nan", "inf", "1_0", "0x10", "1e-320", "10" * 30),
    *("9" * 400, "9" * 5000, "1000000000000000000", "\0", "\r", "\n", "\n\n", "\t", " ", "\x1c"),
    *("\u2028", "\ufeff", "\uff11", "é", "\ud800", '"', "'", ",", ":", ";", "#", "a" * 300),
    *("..", "../", "/", "\\", "{", "}", "[", "]", "{{", "null", "true", "~", "[" * 300),
)
TOKENS = tuple(text.encode("utf-8", "surrogatepass") for text in TEXTS)
_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?")


def mutated(random: Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = TOKENS) -> bytes:
    """One of the seeds after one to four changes; now and then it stays as it is."""
    content = random.choice(seeds)
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        content = random.choice(_CHANGES)(random, content, seeds, tokens)[:LONGEST]
    return content


def _place(random: Random, content: bytes) -> int:
    # Headers and footers matter more than what is between.
    length = len(content)
    near = min(64, length)
    return random.choice(
        (random.randint(0, length), random.randint(0, near), length - random.randint(0, near))
    )


def _span(random: Random, content: bytes) -> tuple[int, int]:
    start = _place(random, content)
    return start, min(len(content), start + random.choice((1, 2, 4, 8, 32, 512)))


def _flip(random: Random, content: bytes, *_: object) -> bytes:
    if not content:
        return content
    at = min(_place(random, content), len(content) - 1)
    return content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]


def _set(random: Random, content: bytes, *_: object) -> bytes:
    at = _place(random, content)
    value = random.choice((0, 1, 32, 127, 128, 254, 255, random.randrange(256)))
    return content[:at] + bytes([value]) + content[at + 1 :]


def _count(random: Random, content: bytes, *_: object) -> bytes:
    """An integer of another value, in either order of its bytes."""
    form = random.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
    size = struct.calcsize(form)
    value = random.choice(NUMBERS) % (1 << 8 * size)
    at = _place(random, content)
    return content[:at] + struct.pack(form, value) + content[at + size :]


def _digits(random: Random, content: bytes, _: object, tokens: Sequence[bytes]) -> bytes:
    """A written number of another value."""
    found = list(_NUMBER.finditer(content[:4096]))
    if not found:
        return _flip(random, content)
    at = random.choice(found)
    number = str(random.choice(NUMBERS)).encode()
    return content[: at.start()] + random.choice((number, *tokens)) + content[at.end() :]


def _truncate(random: Random, content: bytes, *_: object) -> bytes:
    return content[: _place(random, content)]


def _delete(random: Random, content: bytes, *_: object) -> bytes:
    start, end = _span(random, content)
    return content[:start] + content[end:]


def _repeat(random: Random, content: bytes, *_: object) -> bytes:
    start, end = _span(random, content)
    return content[:start] + content[start:end] * random.choice((2, 2, 3, 100)) + content[end:]


def _move(random: Random, content: bytes, *_: object) -> bytes:
    start, end = _span(random, content)
    at = _place(random, content)
    return content[:at] + content[start:end] + content[at:]


def _splice(random: Random, content: bytes, seeds: Sequence[bytes], _: object) -> bytes:
    other = random.choice(seeds)
    return content[: _place(random, content)] + other[_place(random, other) :]


def _insert(random: Random, content: bytes, _: object, tokens: Sequence[bytes]) -> bytes:
    at = _place(random, content)
    return content[:at] + random.choice(tokens) + content[at:]


def _replace(random: Random, content: bytes, _: object, tokens: Sequence[bytes]) -> bytes:
    start, end = _span(random, content)
    return content[:start] + random.choice(tokens) + content[end:]


_CHANGES = (
    *(_flip, _set, _count, _digits, _truncate, _delete),
    *(_repeat, _move, _splice, _insert, _replace),
)


def with_tar_sums(content: bytes) -> bytes:
    """The blocks of a tar that look like headers with their checksums put right."""
    blocks = [bytearray(content[at : at + 512]) for at in range(0, len(content), 512)]
    for block in blocks:
        if len(block) == 512 and block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
    return b"".join(blocks)


def with_png_sums(content: bytes) -> bytes:
    """The chunks of a PNG file with their checksums put right, as far as chunks follow."""
    made, at = content[:8], 8
    while at + 12 <= len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        end = at + 8 + length
        if end + 4 > len(content):
            break
        made += content[at:end] + struct.pack(">I", zlib.crc32(content[at + 4 : end]))
        at = end + 4
    return made + content[at:]
