"""Results of Norn as tables of pandas.

``load`` reads a folder of ``norn sim --out`` or ``norn plan --out``, ``sweep`` the table of a
sweep. Columns are those of the files, which docs/reports.md and docs/formats.md describe; a
column ``run`` in front of them has the name of the run. Times are seconds.

    import norn.results

    r = norn.results.load("results")
    r.jobs.groupby("run").jct_s.describe()
    r.summary.loc["srtf", "jct_s.mean"]

    s = norn.results.sweep("sweep/results.csv")
    norn.results.ratios(s, baseline="fifo", metric="jct_mean_s")

Errors: FileNotFoundError where there are no results, ValueError with the name of the file
where one cannot be read. Needs pandas 1.5 or later.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import pandas as pd

__all__ = ["Results", "load", "ratios", "sweep", "wide"]

Path = Union[str, "os.PathLike[str]"]

_TEXT = ["job", "tenant", "state", "user", "name", "model", "type", "first_reason", "kind"]  # of jobs.csv
_SWEEP = ["seed", "metric", "value"]  # what a sweep has that tells its lines apart


@dataclass(frozen=True)
class Results:
    """What came of runs over one trace.

    jobs: a row for each job of each run, as in jobs.csv. Missing numbers are NaN, missing texts "".
    series: a row for each part of each run, as in series.csv; empty where no run has one.
    summary: a row for each run, indexed by its name, with the numbers and texts of summary.json;
        what is nested there has its path with dots (jct_s.mean), lists are left out.
    comparison: comparison.json; empty where there is none.
    """

    jobs: pd.DataFrame
    series: pd.DataFrame
    summary: pd.DataFrame
    comparison: Dict[str, Any]

    @property
    def runs(self) -> List[str]:
        """The names of the runs, in the order in which they were compared."""
        return list(self.summary.index)


def load(folder: Path) -> Results:
    """Reads the folder of results, or that of one run in it."""
    folder = os.fspath(folder)
    comparison = _json(os.path.join(folder, "comparison.json"), missing={})
    order = {run.get("name"): i for i, run in enumerate(comparison.get("runs", []))}
    runs = [_run(path) for path in _folders(folder)]
    runs.sort(key=lambda run: order.get(run[0], len(order)))
    if not runs:
        raise FileNotFoundError(f"{folder} has no results of norn sim --out: no jobs.csv lies in it or in a folder in it")
    return Results(
        jobs=_together((name, jobs) for name, jobs, _, _ in runs),
        series=_together((name, series) for name, _, series, _ in runs if series is not None),
        summary=pd.DataFrame([summary for _, _, _, summary in runs], index=pd.Index([run[0] for run in runs], name="run")),
        comparison=comparison,
    )


def _folders(folder: str) -> Iterator[str]:
    """Those that hold a run."""
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder} is no folder")
    if os.path.exists(os.path.join(folder, "jobs.csv")):
        yield folder
        return
    for name in sorted(os.listdir(folder)):
        if os.path.exists(os.path.join(folder, name, "jobs.csv")):
            yield os.path.join(folder, name)


def _run(folder: str) -> Tuple[str, pd.DataFrame, Optional[pd.DataFrame], Dict[str, Any]]:
    summary = _json(os.path.join(folder, "summary.json"), missing={})
    name = (summary.get("made") or {}).get("policy") or os.path.basename(os.path.normpath(folder))
    jobs = _csv(os.path.join(folder, "jobs.csv"), _TEXT)
    path = os.path.join(folder, "series.csv")
    series = _csv(path, []) if os.path.exists(path) else None
    flat: Dict[str, Any] = {}
    _flatten("", summary, flat)
    return name, jobs, series, flat


def _flatten(path: str, value: Any, into: Dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{path}.{key}" if path else key, inner, into)
    elif not isinstance(value, list):
        into[path] = math.nan if value is None else value


def _json(path: str, missing: Any) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return missing
    except ValueError as e:
        raise ValueError(f"{path}: {e}") from None


def _csv(path: str, texts: Sequence[str]) -> pd.DataFrame:
    """Reads a table. Texts stay what they are: a job may be called 007, NA or nan."""
    try:
        table = pd.read_csv(path, dtype={name: str for name in texts}, keep_default_na=False, na_values={}, encoding="utf-8")
        for name in table.columns:
            if name not in texts:
                table[name] = pd.to_numeric(table[name].replace("", math.nan))
    except (ValueError, TypeError) as e:
        raise ValueError(f"{path}: {e}") from None
    return table


def _together(tables: Iterator[Tuple[str, pd.DataFrame]]) -> pd.DataFrame:
    all_ = []
    for name, table in tables:
        table.insert(0, "run", name)
        all_.append(table)
    return pd.concat(all_, ignore_index=True) if all_ else pd.DataFrame()


def sweep(path: Path) -> pd.DataFrame:
    """Reads the table of a sweep, or the results.csv in its folder: a row for each metric of each run.

    run is the policy with its settings, as norn sim writes it.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, "results.csv")
    try:
        with open(path, encoding="utf-8-sig") as file:
            header = file.readline().rstrip("\r\n").split(",")
        lacks = [name for name in ["policy", *_SWEEP] if name not in header]
        if lacks:
            raise ValueError(f"has no column {lacks[0]}: it is no table of a sweep")
        numbers = {"seed", "load", "value"}
        table = pd.read_csv(path, dtype={name: str for name in header if name not in numbers}, keep_default_na=False, na_values={"value": [""]}, encoding="utf-8-sig")
        for name in numbers.intersection(header):
            table[name] = pd.to_numeric(table[name])
    except ValueError as e:
        raise ValueError(f"{path}: {e}") from None
    params = table["params"] if "params" in table else pd.Series("", index=table.index)
    table.insert(0, "run", [f"{p}({s})" if s and "(" not in p else p for p, s in zip(table["policy"], params)])
    return table


def _settings(table: pd.DataFrame) -> List[str]:
    """The columns that say in which world a line was measured."""
    return [name for name in table.columns if name not in ("run", "policy", "params", *_SWEEP)]


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """A sweep with a row for each run and a column for each metric."""
    keys = [name for name in table.columns if name not in ("metric", "value")]
    out = table.pivot(index=keys, columns="metric", values="value").reset_index()
    out.columns.name = None
    return out


def ratios(table: pd.DataFrame, baseline: str, metric: str) -> pd.DataFrame:
    """A metric of each run of a sweep, divided by that of the baseline with the same seed in the same setting.

    Gives a row for each setting and run: n (seeds), mean, low and high: the interval in which the mean
    lies in 95 of 100 cases, by Student's distribution; NaN with fewer than two seeds, and where all ratios
    are equal. These are the numbers of the figure "bars" of norn plot.
    """
    one = table[table["metric"] == metric]
    if one.empty:
        raise ValueError(f"no metric is called {metric}: there are {', '.join(sorted(set(table['metric'])))}")
    keys = _settings(table)
    base = one[one["run"] == baseline]
    if base.empty:
        raise ValueError(f"no run is called {baseline}: there are {', '.join(dict.fromkeys(table['run']))}")
    both = one.merge(base[[*keys, "seed", "value"]], on=[*keys, "seed"], suffixes=("", "_base"))
    both = both[both["value_base"] != 0]
    both = both.assign(ratio=both["value"] / both["value_base"])
    groups = both.groupby([*keys, "run"], sort=False)["ratio"]
    out = groups.agg(n="count", mean="mean", sd="std").reset_index()
    half = [_student(n - 1) * sd / math.sqrt(n) if n > 1 and sd > 0 else math.nan for n, sd in zip(out["n"], out["sd"])]
    return out.assign(low=out["mean"] - half, high=out["mean"] + half).drop(columns="sd")


# The 97.5 % quantiles of Student's distribution with 1, 2, ... degrees of freedom.
_STUDENTS = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314,
    2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
]  # fmt: skip


def _student(freedom: int) -> float:
    """Such a quantile; beyond the table by the expansion of Cornish and Fisher."""
    if freedom <= len(_STUDENTS):
        return _STUDENTS[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
