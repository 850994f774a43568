"""A small training for norn selftest: its loss must not tell that it was stopped.

It saves its state when it is told to end, leaves with exit status 75, and goes on
from there when it is started again. The arguments are a folder and a name for its
notes, and the number of steps.
"""

import json
import os
import signal
import sys
import time

told_to_end = False


def end(*_):
    global told_to_end
    told_to_end = True


signal.signal(signal.SIGTERM, end)  # before the slow import
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402

folder, name, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(256, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
state, first = os.path.join(folder, name + ".pt"), 0
if os.path.exists(state):
    saved = torch.load(state, map_location="cpu")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]


def note(step, **more):
    path = os.path.join(folder, f"{name}.{os.environ['NORN_RUN']}")
    with open(path + ".part", "w") as f:
        json.dump({"PID": os.getpid(), "From": first, "Steps": step, "Device": device, "Torch": torch.__version__, **more}, f)
    os.replace(path + ".part", path)


loss = None
for step in range(first, steps):
    if told_to_end:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, state)
        note(step, Over=True)
        sys.exit(75)  # continue me later
    torch.manual_seed(step)  # samples and dropout of a step depend on nothing else
    x = torch.randn(128, 64).to(device)
    y = torch.sin(x.sum(dim=1, keepdim=True))
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        note(step)
    time.sleep(0.01)
note(steps, Over=True, Loss=float(loss).hex())
