"""Files that are replaced whole."""

from __future__ import annotations

import os
import tempfile
import unittest
from typing import BinaryIO
from unittest import mock

from norn.files import replace


class Replace(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "f")

    def put(self, text: bytes) -> None:
        replace(self.path, lambda f: f.write(text), self.path + ".old")

    def read(self, path: str) -> bytes:
        with open(path, "rb") as f:
            return f.read()

    def test_keeps_the_one_before(self) -> None:
        self.put(b"1")
        self.assertEqual(os.listdir(self.folder), ["f"])
        self.put(b"2")
        self.put(b"3")
        self.assertEqual((self.read(self.path), self.read(self.path + ".old")), (b"3", b"2"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["f", "f.old"])

    def test_an_error_leaves_all_as_it_was(self) -> None:
        self.put(b"1")

        def full(f: BinaryIO) -> None:
            f.write(b"half")
            raise OSError(28, "No space left on device")

        with self.assertRaises(OSError):
            replace(self.path, full)
        self.assertEqual(self.read(self.path), b"1")
        self.assertEqual(os.listdir(self.folder), ["f"])

    def test_is_durable_before_it_takes_the_place(self) -> None:
        done: list[str] = []
        fsync, rename = os.fsync, os.replace

        def logged_fsync(fd: int) -> None:
            done.append("fsync")
            fsync(fd)

        def logged_rename(a: str, b: str) -> None:
            done.append(os.path.basename(b))
            rename(a, b)

        self.put(b"1")
        with mock.patch("os.fsync", logged_fsync), mock.patch("os.replace", logged_rename):
            self.put(b"2")
        self.assertEqual(done, ["fsync", "f.old", "f", "fsync"])

    def test_at_every_death_there_is_a_whole_file(self) -> None:
        class Death(BaseException):
            pass

        for last in range(3):
            with self.subTest(last=last):
                self.put(b"good")
                calls = 0
                rename = os.replace

                def dying(a: str, b: str, last: int = last) -> None:
                    nonlocal calls
                    if calls == last:
                        raise Death
                    calls += 1
                    rename(a, b)

                with mock.patch("os.replace", dying), mock.patch("os.unlink"):
                    try:
                        self.put(b"next")
                    except Death:
                        pass
                left = [self.read(p) for p in (self.path, self.path + ".old") if os.path.exists(p)]
                self.assertIn(left[0], (b"good", b"next"))


if __name__ == "__main__":
    unittest.main()
