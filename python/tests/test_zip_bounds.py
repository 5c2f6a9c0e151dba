"""Members of zips that state large sizes: the decoded size is checked before memory is taken, and errors name the member."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import errors

MIB = 1 << 20
LARGE = 16 * MIB


def deflated(data):
    engine = zlib.compressobj(1, zlib.DEFLATED, -15)
    return engine.compress(data) + engine.flush()


def write_zip(path, members):
    """Writes members (name, bytes in the file, stated decoded size, CRC-32). A number instead of bytes makes a hole of that
    size.
    """
    directory = b""
    with open(path, "wb") as file:
        for name, content, n_decoded, check in members:
            at, n = file.tell(), content if isinstance(content, int) else len(content)
            file.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 8, 8, 0, 0, 0, 0, 0, len(name), 0) + name.encode())
            if isinstance(content, int):
                file.seek(n, 1)
            else:
                file.write(content)
            extra = struct.pack("<HHQ", 1, 8, n_decoded) if n_decoded >= 2**32 - 1 else b""
            short = min(n_decoded, 2**32 - 1)
            directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 8, 8, 0, 0, check, n, short, len(name), len(extra),
                                     0, 0, 0, 0, at) + name.encode() + extra  # fmt: skip
        first = file.tell()
        file.write(directory + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(members), len(members), len(directory), first, 0))
    return path


def of_text(name, text):
    return name, deflated(text), len(text), zlib.crc32(text)


def of_picture(i):
    data = encoded(picture(i, 20, 30), "PNG")
    return f"{i}.png", deflated(data), len(data), zlib.crc32(data)


@pytest.fixture
def large(tmp_path) -> Path:
    """Three pictures with texts. The second text is large but takes few bytes in the file."""
    members = []
    for i in range(3):
        members += [of_picture(i), of_text(f"{i}.txt", b"x" * (LARGE if i == 1 else 10))]
    return write_zip(tmp_path / "large.zip", members)


def loader(path, **more):
    return ps.Loader(path, **keywords(batch_size=1, num_workers=1, output="numpy", **more))


def test_a_loader_names_the_member_that_does_not_fit(large):
    with pytest.raises(errors.LimitError, match="host_memory of 25165824 bytes is too small") as caught:
        loader(large, host_memory="24MiB")
    error = caught.value
    assert error.sample == 1 and error.file == str(large) and "'text'" in error.text
    assert f"{len(deflated(b'x' * (LARGE)))} stored bytes, stated to decode to {LARGE}" in error.text
    assert len(list(loader(large, host_memory="24MiB", fields=["image"]))) == 3
    lengths = [len(batch["text"][0]) for batch in loader(large, host_memory="512MiB")]
    assert lengths == [10, LARGE, 10]


def test_an_item_for_which_there_is_no_memory_is_refused_before_it_is_read(tmp_path):
    n_decoded = 60 << 30
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    if available > n_decoded - (4 << 30):
        pytest.skip("this machine has memory for what an index can state")
    path = write_zip(tmp_path / "bomb.zip", [of_picture(0), ("0.txt", 64 * MIB, n_decoded, 0)])  # the content is a hole
    assert path.stat().st_blocks < 1000
    data = ps.Dataset(path)
    with pytest.raises(errors.LimitError, match=f"{64 * MIB} stored bytes are stated to decode to {n_decoded}") as caught:
        data.read(0, "text")
    assert caught.value.sample == 0 and caught.value.file == str(path) and caught.value.offset > 0
    with pytest.raises(errors.LimitError, match=f"stated to decode to {n_decoded}"):
        loader(path, host_memory="1GiB")
    assert len(data.read(0, "image")) > 0


def test_no_more_is_written_than_stated(tmp_path):
    name, content, _, check = of_text("0.txt", b"y" * MIB)
    data = ps.Dataset(write_zip(tmp_path / "lie.zip", [of_picture(0), (name, content, 5000, check)]))
    with pytest.raises(errors.CorruptError, match="hold more than the 5000 bytes that are stated"):
        data.read(0, "text")
    with pytest.raises(errors.CorruptError, match="cannot hold as many bytes"):
        ps.Dataset(write_zip(tmp_path / "lie2.zip", [of_picture(0), (name, content, len(content) * 1100, check)]))
