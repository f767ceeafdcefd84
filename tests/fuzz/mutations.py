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
        start, end = _span(random, content)
        made = _replacement(random, content, content[start:end], seeds, tokens)
        content = (content[:start] + made + content[end:])[:LONGEST]
    return content


def _place(random: Random, content: bytes) -> int:
    # Headers and footers matter more than what is between.
    length = len(content)
    near = min(64, length)
    return random.choice(
        (random.randint(0, length), random.randint(0, near), length - random.randint(0, near))
    )


def _span(random: Random, content: bytes) -> tuple[int, int]:
    """Some bytes, none, all from a place on, or a written number."""
    start = _place(random, content)
    size = random.choice((0, 0, 1, 1, 1, 2, 4, 8, 32, 512, LONGEST))
    numbers = list(_NUMBER.finditer(content[:4096])) if random.random() < 0.1 else []
    return random.choice(numbers).span() if numbers else (start, start + size)


def _replacement(
    random: Random, content: bytes, part: bytes, seeds: Sequence[bytes], tokens: Sequence[bytes]
) -> bytes:
    """Nothing, a flipped bit, another number in either order of its bytes, a token or a copy."""
    form = random.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
    number = random.choice((*NUMBERS, random.randrange(256)))
    other, at = random.choice((content, *seeds)), _place(random, content)
    return random.choice(
        (
            b"",
            bytes(byte ^ 1 << random.randrange(8) for byte in part[:1]) + part[1:],
            bytes([number % 256]),
            struct.pack(form, number % (1 << 8 * struct.calcsize(form))),
            str(number).encode(),
            part * random.choice((2, 3, 100)),
            other[at : at + random.choice((1, 8, 512))],
            random.choice(tokens),
            random.choice(tokens),
        )
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
