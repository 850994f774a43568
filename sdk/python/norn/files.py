"""Files that are replaced whole: whoever dies when, there is a complete one."""

from __future__ import annotations

import os
from typing import BinaryIO, Callable, Optional


def replace(path: str, write: Callable[[BinaryIO], object], keep: Optional[str] = None, part: Optional[str] = None) -> None:
    """Writes a file beside path, makes it durable, and puts it in path's place. With
    keep, what was at path is kept under that name. An error leaves path alone.

    At every moment path, or else keep, is a complete file. write gets a file that
    can be read and written. It is called part until it is complete, by default
    PATH.part: processes that write to the same path need different ones.
    """
    part = part or path + ".part"
    try:
        with open(part, "w+b") as f:
            write(f)
            f.flush()
            os.fsync(f.fileno())
        if keep is not None and os.path.exists(path):
            os.replace(path, keep)
        os.replace(part, path)
    except BaseException:
        try:
            os.unlink(part)
        except OSError:
            pass
        raise
    _sync_folder(os.path.dirname(path) or ".")


def _sync_folder(folder: str) -> None:
    """Makes names in a folder durable, where the system can."""
    try:
        fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)
