"""Which bits of its bloom filter RocketMQ gives to a consumer group with an expression.

4.9.7 can work out for each message, when it is stored, which groups' expressions match, and keep the answer
as a bit map in the consume queue's extension (off by default, never here). Its consumerFilter.json names each
group's bits, and a file whose bits aren't those of its own settings is thrown away; so they are written, for
the defaults maxErrorRateOfBloomFilter=20 and expectConsumerNumUseFilter=32. The hash is MurmurHash3's x64
variant of 128 bits, of which RocketMQ takes the first 64.
"""

from __future__ import annotations

from typing import Final

BITS: Final = 112
"""32 groups, an error rate of 20 %: 32 * log2(5) * log2(e), up to whole bytes."""

_HASHES: Final = 3
_MASK: Final = (1 << 64) - 1
_FIRST: Final = 0x87C37B91114253D5
_SECOND: Final = 0x4CF5AD432745937F


def bloom_positions(text: str) -> list[int]:
    """The bits of `text`, which is `group#topic`: 3 numbers below BITS."""
    hashed = _murmur3(text.encode("utf-8", "replace"))
    low, high = hashed & 0xFFFFFFFF, hashed >> 32
    return [_non_negative(low + number * high) % BITS for number in range(1, _HASHES + 1)]


def _non_negative(value: int) -> int:
    """As Java's int, bits flipped if that is negative."""
    value &= 0xFFFFFFFF
    return value ^ 0xFFFFFFFF if value >> 31 else value


def _murmur3(data: bytes) -> int:
    """The first 64 bits of the hash with seed 0."""
    one = two = 0
    tail = len(data) - len(data) % 16
    for at in range(0, tail, 16):
        one ^= _mix_first(int.from_bytes(data[at : at + 8], "little"))
        one = ((_rotated(one, 27) + two) * 5 + 0x52DCE729) & _MASK
        two ^= _mix_second(int.from_bytes(data[at + 8 : at + 16], "little"))
        two = ((_rotated(two, 31) + one) * 5 + 0x38495AB5) & _MASK
    one ^= _mix_first(int.from_bytes(data[tail : tail + 8], "little")) ^ len(data)
    two ^= _mix_second(int.from_bytes(data[tail + 8 :], "little")) ^ len(data)
    one = (one + two) & _MASK
    two = (two + one) & _MASK
    return (_avalanche(one) + _avalanche(two)) & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _mix_first(word: int) -> int:
    return _rotated(word * _FIRST & _MASK, 31) * _SECOND & _MASK


def _mix_second(word: int) -> int:
    return _rotated(word * _SECOND & _MASK, 33) * _FIRST & _MASK


def _avalanche(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
