"""Checkpoints of a run, on disk.

A checkpoint is what torch.save writes, with one more record in it, norn.json, that
tells what it is; torch.load reads it like any other. It is written beside the old
one, made durable, and put in its place; the old one is kept as PATH.previous. One
that is torn, damaged, or of another model is refused and put aside as PATH.refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import random
import sys
import uuid
import zipfile
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Dict, List, Optional

import torch

from ..files import replace

VERSION = 1
RECORD = "norn.json"

log = logging.getLogger("norn")


class Unusable(Exception):
    """A checkpoint that cannot be gone on from: damaged, or of something else."""


@dataclass(frozen=True)
class About:
    """What a checkpoint is: enough to tell it from others without loading it."""

    model: str  # signature
    step: int
    job: str = ""
    run: int = 0
    id: str = ""  # no two checkpoints have the same
    norn: str = "checkpoint"
    version: int = VERSION


def previous(path: str) -> str:
    """Where the checkpoint before the one at path is kept."""
    return path + ".previous"


def signature(model: torch.nn.Module) -> str:
    """Of the names, shapes and types of a model's state."""
    h = hashlib.sha256()
    for name, v in sorted(model.state_dict().items()):
        what = f"{tuple(v.shape)} {v.dtype}" if isinstance(v, torch.Tensor) else ""
        h.update(f"{name} {what}\n".encode())
    return h.hexdigest()


def save(path: str, state: Dict[str, Any], about: About) -> About:
    """Writes a checkpoint; the one at path becomes the previous one."""
    about = dataclasses.replace(about, id=uuid.uuid4().hex)

    def write(f: BinaryIO) -> None:
        torch.save(state, f)
        with zipfile.ZipFile(f, "a") as z:
            folder = z.namelist()[0].split("/")[0]
            z.writestr(f"{folder}/{RECORD}", json.dumps(asdict(about)))

    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    replace(path, write, previous(path))
    return about


def inspect(path: str, model: Optional[str] = None) -> About:
    """What the checkpoint at path is, after a look at all of its bytes. Unusable if
    it is not whole, or not of the model with that signature."""
    try:
        with zipfile.ZipFile(path) as z:
            record = [n for n in z.namelist() if n.endswith("/" + RECORD)]
            if len(record) != 1:
                raise Unusable(f"{path} is no checkpoint of Norn's")
            bad = z.testzip()
            if bad is not None:
                raise Unusable(f"{path} is damaged in {bad}")
            data = json.loads(z.read(record[0]))
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError) as err:
        raise Unusable(f"{path} is no whole checkpoint: {err}") from err
    if not isinstance(data, dict) or data.get("norn") != "checkpoint" or data.get("version") != VERSION:
        raise Unusable(f"{path} is no checkpoint that this version reads")
    try:
        about = About(**data)
    except TypeError as err:
        raise Unusable(f"{path} is no checkpoint that this version reads: {err}") from err
    if model is not None and about.model != model:
        raise Unusable(f"{path} is of another model")
    return about


@dataclass(frozen=True)
class Found:
    """A checkpoint to go on from."""

    path: str
    about: About
    kept: bool  # it is the previous one


def newest(path: str, model: str) -> Optional[Found]:
    """The newest usable checkpoint; None if there is none at all. What is refused
    while an older one is used is put aside. Where nothing is usable of what is
    there, Unusable: to begin anew, and write over it, is for a human to decide."""
    refused: List[str] = []
    for p in (path, previous(path)):
        if not os.path.exists(p):
            continue
        try:
            found = Found(p, inspect(p, model), p != path)
        except Unusable as err:
            refused.append(str(err))
            continue
        if refused:
            os.replace(path, path + ".refused")
            log.warning("%s; going on from %s at step %d", refused[0], p, found.about.step)
        return found
    if refused:
        raise Unusable("; ".join(refused) + ": remove it to begin anew")
    return None


def load(found: Found) -> Dict[str, Any]:
    """Reads a checkpoint that was found, or Unusable if it is not that one (any more)."""
    if inspect(found.path).id != found.about.id:
        raise Unusable(f"{found.path} is not the checkpoint that rank 0 has found: all tasks must see the same files")
    # It was written by this job: what a user's own objects are made of is welcome.
    return torch.load(found.path, map_location="cpu", weights_only=False)


def rng_state(device: torch.device) -> Dict[str, Any]:
    """The states of all random number generators that training may use."""
    out: Dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        out["numpy"] = numpy.random.get_state()
    if device.type == "cuda":
        out["cuda"] = torch.cuda.get_rng_state(device)
    return out


def set_rng_state(device: torch.device, state: Dict[str, Any]) -> None:
    """Puts back what rng_state has told."""
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        numpy.random.set_state(state["numpy"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)


def number(*words: int) -> int:
    """A number of 32 bits that those words make, and others do not."""
    return int.from_bytes(hashlib.blake2b(" ".join(map(str, words)).encode(), digest_size=4).digest(), "little")


def seed_rng(seed: int) -> None:
    """Begins all generators anew."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
