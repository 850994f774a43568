"""Executes a notebook in its folder and writes it, with what its cells gave, to a file.

    python3 execute.py results.ipynb results.ipynb

Needs nbclient and ipykernel (Debian: python3-nbclient, python3-ipykernel). It fails with the
error of the first cell that fails. Times and machine are not kept, so that a notebook that
gives the same is the same.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main(source: str, target: str) -> None:
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # or the kernel warns of its own modules
    book = nbformat.read(source, as_version=4)
    NotebookClient(book, timeout=300, record_timing=False, resources={"metadata": {"path": str(Path(source).resolve().parent)}}).execute()
    book.metadata.pop("language_info", None)
    nbformat.write(book, target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: execute.py NOTEBOOK RESULT")
    main(*sys.argv[1:])
