"""XXH3, 64 bits, seed 0, default secret: a simple, slow implementation from its public specification."""

import struct

M64 = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
STRIPE = 64
LAST = len(SECRET) - STRIPE  # offset in the secret for the scramble at a block's end
BLOCK_STRIPES = LAST // 8


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def fold(a, b):
    product = a * b
    return (product ^ product >> 64) & M64


def avalanche64(h):
    h = (h ^ h >> 33) * P64[1] & M64
    h = (h ^ h >> 29) * P64[2] & M64
    return h ^ h >> 32


def avalanche(h):
    h = (h ^ h >> 37) * 0x165667919E3779F9 & M64
    return h ^ h >> 32


def short(data):
    """Hashes up to 16 bytes."""
    n = len(data)
    if n > 8:
        low = u64(data, 0) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
        high = u64(data, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return avalanche(n + swapped + high + fold(low, high) & M64)
    if n > 3:
        h = (u32(data, n - 4) + (u32(data, 0) << 32) & M64) ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h ^= (h << 49 | h >> 15) & M64 ^ (h << 24 | h >> 40) & M64
        h = h * 0x9FB21C651E98DF25 & M64
        h = (h ^ (h >> 35) + n) * 0x9FB21C651E98DF25 & M64
        return h ^ h >> 28
    if n > 0:
        combined = data[0] << 16 | data[n // 2] << 24 | data[n - 1] | n << 8
        return avalanche64(combined ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    return avalanche64(u64(SECRET, 56) ^ u64(SECRET, 64))


def mix16(data, at, secret_at):
    return fold(u64(data, at) ^ u64(SECRET, secret_at), u64(data, at + 8) ^ u64(SECRET, secret_at + 8))


def middle(data):
    """Hashes 17 to 240 bytes."""
    n = len(data)
    h = n * P64[0]
    if n <= 128:
        for i in reversed(range((n - 1) // 32 + 1)):
            h += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(h & M64)
    for i in range(8):
        h += mix16(data, 16 * i, 16 * i)
    h = avalanche(h & M64)
    for i in range(8, n // 16):
        h += mix16(data, 16 * i, 16 * (i - 8) + 3)
    return avalanche(h + mix16(data, n - 16, 136 - 17) & M64)


def accumulate(acc, data, at, secret):
    words = struct.unpack_from("<8Q", data, at)
    for i, word in enumerate(words):
        key = word ^ secret[i]
        acc[i] = acc[i] + (key & 0xFFFFFFFF) * (key >> 32) & M64
        acc[i ^ 1] = acc[i ^ 1] + word & M64


def long(data):
    """Hashes more than 240 bytes."""
    n = len(data)
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    secrets = [struct.unpack_from("<8Q", SECRET, 8 * i) for i in range(BLOCK_STRIPES)]
    scramble = struct.unpack_from("<8Q", SECRET, LAST)
    for stripe in range((n - 1) // STRIPE):
        accumulate(acc, data, STRIPE * stripe, secrets[stripe % BLOCK_STRIPES])
        if stripe % BLOCK_STRIPES == BLOCK_STRIPES - 1:
            acc = [(a ^ a >> 47 ^ s) * P32[0] & M64 for a, s in zip(acc, scramble, strict=True)]
    accumulate(acc, data, n - STRIPE, struct.unpack_from("<8Q", SECRET, LAST - 7))
    h = n * P64[0]
    for i in range(4):
        h += fold(acc[2 * i] ^ u64(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ u64(SECRET, 19 + 16 * i))
    return avalanche(h & M64)


def xxh3(data):
    return short(data) if len(data) <= 16 else middle(data) if len(data) <= 240 else long(data)
