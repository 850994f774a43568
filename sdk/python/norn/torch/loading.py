"""Getting samples from a data set to the device."""

from __future__ import annotations

import multiprocessing
import signal
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, List, Optional, cast

import torch
from torch.utils.data import DataLoader, default_collate

from . import state


@dataclass(frozen=True)
class Ask:
    """Samples to be loaded together, in their order. With a seed, random numbers that are
    taken for it follow from that alone, and others are as if none were taken."""

    indices: List[int]
    seed: Optional[int] = None


class _Asks:
    """Asks as DataLoader takes them: something that can be walked once."""

    def __init__(self, asks: Iterator[Ask]) -> None:
        self._asks = asks

    def __iter__(self) -> Iterator[Ask]:
        return self._asks


class _Answers:
    """A data set whose items are what was asked for."""

    def __init__(self, dataset: Any, collate: Optional[Callable[[List[Any]], Any]]) -> None:
        self._dataset, self._collate = dataset, collate or cast(Any, default_collate)

    def __getitem__(self, ask: Ask) -> Any:
        if ask.seed is None:
            return self._get(ask)
        before = state.rng_state(_CPU)
        state.seed_rng(ask.seed)
        try:
            return self._get(ask)
        finally:
            state.set_rng_state(_CPU, before)

    def _get(self, ask: Ask) -> Any:
        many = getattr(self._dataset, "__getitems__", None)
        return self._collate([self._dataset[i] for i in ask.indices] if many is None else many(ask.indices))


_CPU = torch.device("cpu")


def loader(
    dataset: Any,
    asks: Iterator[Ask],
    collate: Optional[Callable[[List[Any]], Any]],
    workers: int,
    device: torch.device,
    seed: int,
) -> Iterable[Any]:
    """Loads what is asked for, in its order. The seed is for processes that
    load; without any, loading takes random numbers where training does."""
    return DataLoader(
        cast(Any, _Answers(dataset, collate)),
        batch_size=None,
        sampler=cast(Any, _Asks(asks)),
        collate_fn=_as_it_is,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        worker_init_fn=_stay,
        # Its own generator, or it would take numbers from that of training.
        generator=torch.Generator().manual_seed(seed),
    )


def _as_it_is(data: Any) -> Any:
    return data


def _stay(_: int) -> None:
    """A process that loads data does not end by the signal that tells the task to
    stop: the task still needs it until its step is done. It ends with the task."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def end_loaders() -> None:
    """Ends the processes that load data. Python would end them by that signal when the task
    ends, and wait for them for ever."""
    for p in multiprocessing.active_children():
        if p.daemon:
            p.kill()


def moved(data: Any, device: torch.device) -> Any:
    """data with its tensors on the device."""
    if device.type == "cpu":
        return data
    if isinstance(data, torch.Tensor):
        return data.to(device, non_blocking=True)
    if isinstance(data, dict):
        return {k: moved(v, device) for k, v in cast("dict[Any, Any]", data).items()}
    if isinstance(data, tuple) and hasattr(cast(Any, data), "_fields"):
        return type(cast(Any, data))(*(moved(v, device) for v in cast(Any, data)))
    if isinstance(data, (list, tuple)):
        items = [moved(v, device) for v in cast("list[Any]", data)]
        return items if isinstance(data, list) else tuple(items)
    return data
