"""Writes what a machine tells of its NVIDIA GPUs, for the tests of package hardware.

    mkdir box && python3 record.py >box/machine.json      takes nvidia-ml-py
    nvidia-smi -q -x >box/smi.xml
    nvidia-smi topo -m >box/topo.txt
"""
import json
import os

import pynvml as n


def ask(f, *args):
    """The answer, or the code of the error."""
    try:
        v = f(*args)
    except n.NVMLError as e:
        return {"error": e.value}
    return v.decode() if isinstance(v, bytes) else v


n.nvmlInit()
count = n.nvmlDeviceGetCount()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(count)]


def memory(h, **kw):
    m = ask(lambda: n.nvmlDeviceGetMemoryInfo(h, **kw))
    if isinstance(m, dict):
        return m
    return {k: getattr(m, k) for k in ("total", "reserved", "free", "used") if hasattr(m, k)}


def processes(f, h):
    v = ask(f, h)
    return v if isinstance(v, dict) else [{"pid": p.pid, "used": p.usedGpuMemory} for p in v]


def links(h):
    out = []
    for i in range(18):
        state = ask(n.nvmlDeviceGetNvLinkState, h, i)
        one = {"state": state}
        if state == 1:
            pci = ask(n.nvmlDeviceGetNvLinkRemotePciInfo, h, i)
            one["remote"] = pci if isinstance(pci, dict) else (pci.busId.decode() if isinstance(pci.busId, bytes) else pci.busId)
            one["type"] = ask(n.nvmlDeviceGetNvLinkRemoteDeviceType, h, i)
        out.append(one)
    while out and isinstance(out[-1]["state"], dict):
        out.pop()
    return out


def field(h, number):
    v = ask(n.nvmlDeviceGetFieldValues, h, [number])
    return v if isinstance(v, dict) else {"code": v[0].nvmlReturn, "value": v[0].value.uiVal}


def gpu(h):
    util = ask(n.nvmlDeviceGetUtilizationRates, h)
    pci = n.nvmlDeviceGetPciInfo(h).busId
    return {
        "name": ask(n.nvmlDeviceGetName, h), "uuid": ask(n.nvmlDeviceGetUUID, h), "bus_id": pci.decode() if isinstance(pci, bytes) else pci,
        "minor": ask(n.nvmlDeviceGetMinorNumber, h), "memory": memory(h), "memory_v2": memory(h, version=n.nvmlMemory_v2),
        "util": util if isinstance(util, dict) else util.gpu, "temperature": ask(n.nvmlDeviceGetTemperature, h, 0),
        "slowdown": ask(n.nvmlDeviceGetTemperatureThreshold, h, 1), "milliwatts": ask(n.nvmlDeviceGetPowerUsage, h),
        "ecc": ask(n.nvmlDeviceGetTotalEccErrors, h, 1, 0), "mig": ask(n.nvmlDeviceGetMigMode, h),
        "processes": processes(n.nvmlDeviceGetComputeRunningProcesses, h), "clients": processes(n.nvmlDeviceGetMPSComputeRunningProcesses, h),
        "nvlinks": links(h), "nvlink_mbps": field(h, 90),
    }


def files(h):
    """What sysfs tells of a GPU, and its device file."""
    pci = n.nvmlDeviceGetPciInfo(h).busId
    pci = (pci.decode() if isinstance(pci, bytes) else pci).lower()[-12:]
    path = f"/sys/bus/pci/devices/{pci}/numa_node"
    found = {f"/dev/nvidia{n.nvmlDeviceGetMinorNumber(h)}": ""}
    if os.path.exists(path):
        with open(path) as f:
            found[path] = f.read()
    return found


nodes = [f"/sys/devices/system/node/{d}/cpulist" for d in os.listdir("/sys/devices/system/node") if d.startswith("node")]
tree = {path: open(path).read() for path in nodes}
for h in handles:
    tree.update(files(h))
pairs = [{"a": i, "b": j, "ancestor": ask(n.nvmlDeviceGetTopologyCommonAncestor, handles[i], handles[j]), "p2p_nvlink": ask(n.nvmlDeviceGetP2PStatus, handles[i], handles[j], 2)}
         for i in range(count) for j in range(count) if i != j]
print(json.dumps({"driver": ask(n.nvmlSystemGetDriverVersion), "files": tree, "gpus": [gpu(h) for h in handles], "pairs": pairs}, indent=1))
