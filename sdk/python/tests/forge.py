"""Runs gangs of Python programs in processes that have PyTorch already: importing it
takes longer than most of what is tested.

Reads a line of JSON for each gang: {"program": [...], "envs": [{...}, ...], "err": path,
"limit": seconds}; answers with the list of exit statuses, minus the signal where one
ended a task.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import sys
import traceback
from typing import Any, Dict, List

import torch  # noqa: F401  # pyright: ignore[reportUnusedImport]
import torch.distributed.algorithms.ddp_comm_hooks.default_hooks  # noqa: F401
import torch.nn.parallel  # noqa: F401
import torch.utils.data  # noqa: F401


def child(program: List[str], env: Dict[str, str], err: str) -> None:
    """Becomes the program. Does not return."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for source, target in ((os.open(os.devnull, os.O_RDWR), (0, 1)), (os.open(err, os.O_WRONLY | os.O_CREAT | os.O_APPEND), (2,))):
            for t in target:
                os.dup2(source, t)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = program
        try:
            runpy.run_path(program[0], run_name="__main__")
            code = 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        except BaseException:
            traceback.print_exc()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def gang(order: Dict[str, Any]) -> List[int]:
    pids: List[int] = []

    def late(*_: Any) -> None:
        for p in pids:
            os.kill(p, signal.SIGKILL)

    signal.signal(signal.SIGALRM, late)
    for env in order["envs"]:
        pid = os.fork()
        if pid == 0:
            child(order["program"], env, order["err"])
        pids.append(pid)
    signal.alarm(int(order["limit"]))
    codes: List[int] = []
    for pid in pids[:]:
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        pids.remove(pid)
    signal.alarm(0)
    return codes


for line in sys.stdin:
    print(json.dumps(gang(json.loads(line))), flush=True)
