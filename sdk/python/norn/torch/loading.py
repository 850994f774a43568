"""Getting samples from a data set to the device."""

from __future__ import annotations

import signal
from typing import Any, Callable, Iterable, Iterator, List, Optional, cast

import torch
from torch.utils.data import DataLoader


class _Batches:
    """Index lists as DataLoader takes them: something that can be walked once."""

    def __init__(self, lists: Iterator[List[int]]) -> None:
        self._lists = lists

    def __iter__(self) -> Iterator[List[int]]:
        return self._lists


def loader(
    dataset: Any,
    lists: Iterator[List[int]],
    collate: Optional[Callable[[List[Any]], Any]],
    workers: int,
    device: torch.device,
    seed: int,
) -> Iterable[Any]:
    """Loads the samples of each list, in their order. The seed is for processes that
    load; without any, loading takes random numbers where training does."""
    return DataLoader(
        dataset,
        batch_sampler=cast(Any, _Batches(lists)),
        collate_fn=collate,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        worker_init_fn=_stay,
        # Its own generator, or it would take numbers from that of training.
        generator=torch.Generator().manual_seed(seed),
    )


def _stay(_: int) -> None:
    """A process that loads data does not end by the signal that tells the task to
    stop: the task still needs it until its step is done. It ends with the task."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


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
