"""Models the possible states of a disk after a loss of power, from the log of kill_shim.c.

The bytes of a file are durable after an fsync of the file, the names in a directory after an fsync of that directory. Of later
changes, any subset may have reached the disk. A rename within a directory is one change. A rename between directories is two:
the new name appears, and the old one disappears.
"""

import os
import pathlib
import struct

FAILED, CREATE, WRITE, SYNC, TRUNCATE, MKDIR, RENAME, LINK, UNLINK, RMDIR = range(10)
HEAD = struct.Struct("<IIIIQQQ")


class File:
    def __init__(self, content=b""):
        self.durable = bytearray(content)
        self.pending = []  # (offset, bytes), or (length, None) for a truncation

    def sync(self):
        self.durable = self.with_changes(lambda: True)
        self.pending = []

    def with_changes(self, pick):
        content = bytearray(self.durable)
        for offset, written in self.pending:
            if not pick():
                continue
            if written is None:
                content = content[:offset].ljust(offset, b"\0")
            else:
                content = content.ljust(offset, b"\0")
                content[offset:offset + len(written)] = written
        return content


class Directory:
    def __init__(self):
        self.durable, self.now = {}, {}
        self.pending = []  # each a list of (name, object or None) that reach the disk together

    def change(self, *steps):
        self.pending.append(steps)
        apply(self.now, steps)

    def sync(self):
        self.durable, self.pending = dict(self.now), []

    def with_changes(self, pick):
        names = dict(self.durable)
        for steps in self.pending:
            if pick():
                apply(names, steps)
        return names


def apply(names, steps):
    for name, thing in steps:
        if thing is None:
            names.pop(name, None)
        else:
            names[name] = thing


def entries(log):
    content, at = pathlib.Path(log).read_bytes() if os.path.exists(log) else b"", 0
    while at < len(content):
        kind, n_a, n_b, _, inode, offset, nbytes = HEAD.unpack_from(content, at)
        at += HEAD.size
        a, b = content[at:at + n_a].decode(), content[at + n_a:at + n_a + n_b].decode()
        at += n_a + n_b
        n_written = nbytes if kind == WRITE else 0
        yield kind, inode, a, b, offset, content[at:at + n_written]
        at += n_written


def count(log):
    return sum(1 for _ in entries(log))


class Disk:
    """A disk on which all files below `root` are durable; replay() applies the changes made since."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.inodes = {}
        self.top = self._load(self.root)

    def _load(self, path):
        if not path.is_dir():
            made = self.inodes[path.stat().st_ino] = File(path.read_bytes())
            return made
        directory = Directory()
        for name in os.listdir(path):
            directory.durable[name] = directory.now[name] = self._load(path / name)
        return directory

    def _find(self, path):
        """Returns the directory of a path, and its name in it."""
        parts = pathlib.Path(path).relative_to(self.root).parts
        directory = self.top
        for part in parts[:-1]:
            directory = directory.now[part]
        return directory, parts[-1]

    def _sync(self, inode, path):
        if pathlib.Path(path) == self.root:
            return self.top.sync()
        directory, name = self._find(path)
        found = directory.now.get(name)
        thing = found if isinstance(found, Directory) else self.inodes[inode]
        return thing.sync()

    def replay(self, log):
        for entry in entries(log):
            self._take(*entry)

    def _take(self, kind, inode, a, b, offset, written):
        if kind == FAILED or a.endswith(" (deleted)"):
            return None  # a file without a name leaves nothing
        if kind == SYNC:
            return self._sync(inode, a)
        if kind == WRITE:  # a file opened with O_TMPFILE has no name, and is lost with its process
            return self.inodes.setdefault(inode, File()).pending.append((offset, written))
        if kind == TRUNCATE:
            return self.inodes[inode].pending.append((offset, None))
        directory, name = self._find(a)
        if kind == CREATE:
            made = self.inodes[inode] = File()
            return directory.change((name, made))
        if kind == MKDIR:
            return directory.change((name, Directory()))
        if kind in (UNLINK, RMDIR):
            return directory.change((name, None))
        other, new_name = self._find(b)
        thing = directory.now[name]
        if kind == LINK:
            return other.change((new_name, thing))
        if directory is other:
            return directory.change((new_name, thing), (name, None))
        other.change((new_name, thing))
        return directory.change((name, None))

    def write_to(self, target, pick_names, pick_bytes):
        """Writes a possible state of the disk to the directory `target`: a change that no fsync covers is included if its pick()
        is true."""
        self._write(self.top, pathlib.Path(target), pick_names, pick_bytes)

    def _write(self, thing, path, pick_names, pick_bytes):
        if isinstance(thing, File):
            path.write_bytes(thing.with_changes(pick_bytes))
            return
        path.mkdir()
        for name, below in thing.with_changes(pick_names).items():
            self._write(below, path / name, pick_names, pick_bytes)
