"""Results of Norn as tables of pandas."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import tempfile
import unittest
from typing import Any

HAS_PANDAS = importlib.util.find_spec("pandas") is not None
if not HAS_PANDAS and os.environ.get("CI"):
    raise RuntimeError("pandas is missing: continuous integration needs python3-pandas")
needs_pandas = unittest.skipUnless(HAS_PANDAS, "pandas is missing (Debian: python3-pandas)")

if HAS_PANDAS:
    import norn.results

JOBS = """job,tenant,gpus,submit_s,first_start_s,end_s,jct_s,wait_s,run_s,preemptions,migrations,state,user,name,model,true_s,type,rho,lost_gpu_s,first_reason
007,"a, b",1,0,0,100.000000001,100.000000001,0,100,0,0,done,ann,NA,,100,V100,1,0,
nan,,0.5,10,,,,90,0,0,0,waiting,,,bert,50,,,0,need-gpus
"""
SERIES = "from_s,to_s,utilisation\n0,128,0.5\n128,200,1\n"
SWEEP = """trace,cluster,load,estimates,seed,policy,params,metric,value
philly,2x8,1,oracle,1,fifo,,jct_mean_s,100
philly,2x8,1,oracle,2,fifo,,jct_mean_s,200
philly,2x8,1,oracle,3,fifo,,jct_mean_s,400
philly,2x8,1,oracle,1,srtf,"a=1,b=2",jct_mean_s,50
philly,2x8,1,oracle,2,srtf,"a=1,b=2",jct_mean_s,120
philly,2x8,1,oracle,3,srtf,"a=1,b=2",jct_mean_s,280
philly,2x8,1,oracle,4,srtf,"a=1,b=2",jct_mean_s,99
philly,2x8,1,user,1,srtf,"a=1,b=2",jct_mean_s,77
philly,2x8,1,oracle,1,fifo,,gpu_utilisation,0.5
"""


@needs_pandas
class ResultsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def write(self, name: str, text: Any) -> str:
        path = os.path.join(self.dir.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        return path

    def test_folder(self) -> None:
        self.write("srtf/jobs.csv", JOBS)
        self.write("srtf/series.csv", SERIES)
        self.write("srtf/summary.json", {"made": {"policy": "srtf(a=1)", "flags": []}, "jct_s": {"mean": 100.5, "p99": None}, "makespan_s": None, "jobs": {"finished": 1}})
        self.write("fifo/jobs.csv", JOBS)
        self.write("comparison.json", {"runs": [{"name": "srtf(a=1)"}, {"name": "fifo"}], "verdict": "srtf helps"})
        r = norn.results.load(self.dir.name)
        self.assertEqual(r.runs, ["srtf(a=1)", "fifo"])
        self.assertEqual(r.comparison["verdict"], "srtf helps")
        self.assertEqual(len(r.jobs), 4)
        first, second = r.jobs.iloc[0], r.jobs.iloc[1]
        self.assertEqual(list(first[["run", "job", "tenant", "name", "first_reason", "jct_s", "gpus"]]), ["srtf(a=1)", "007", "a, b", "NA", "", 100.000000001, 1])
        self.assertEqual((second["job"], second["tenant"], second["gpus"], second["model"]), ("nan", "", 0.5, "bert"))
        self.assertTrue(math.isnan(second["jct_s"]) and math.isnan(second["rho"]))
        self.assertEqual(list(r.jobs["run"]), ["srtf(a=1)"] * 2 + ["fifo"] * 2)
        self.assertEqual([list(row) for row in r.series.values], [["srtf(a=1)", 0, 128, 0.5], ["srtf(a=1)", 128, 200, 1]])
        self.assertEqual((r.summary.loc["srtf(a=1)", "jct_s.mean"], r.summary.loc["srtf(a=1)", "jobs.finished"]), (100.5, 1))
        self.assertTrue(math.isnan(r.summary.loc["srtf(a=1)", "jct_s.p99"]))
        self.assertNotIn("made.flags", r.summary.columns)

        one = norn.results.load(os.path.join(self.dir.name, "fifo"))
        self.assertEqual((one.runs, len(one.jobs), len(one.series), one.comparison), (["fifo"], 2, 0, {}))

    def test_sweep(self) -> None:
        path = self.write("results.csv", SWEEP)
        for at in (path, self.dir.name):
            s = norn.results.sweep(at)
            self.assertEqual((len(s), s["run"][3], s["load"][0], s["seed"][3]), (9, "srtf(a=1,b=2)", 1.0, 1))
        w = norn.results.wide(s)
        self.assertEqual(len(w), 8)
        self.assertEqual(list(w[(w["run"] == "fifo") & (w["seed"] == 1)][["jct_mean_s", "gpu_utilisation"]].iloc[0]), [100, 0.5])
        r = norn.results.ratios(s, baseline="fifo", metric="jct_mean_s")
        # Of 0.5, 0.6 and 0.7 the mean is 0.6 and the standard deviation 0.1; seed 4 has no baseline.
        half = 4.3027 * 0.1 / math.sqrt(3)
        self.assertEqual(list(r.columns), ["trace", "cluster", "load", "estimates", "run", "n", "mean", "low", "high"])
        self.assertEqual(list(r["run"]), ["fifo", "srtf(a=1,b=2)"])
        fifo, srtf = r.iloc[0], r.iloc[1]
        self.assertTrue(fifo["n"] == 3 and fifo["mean"] == 1 and math.isnan(fifo["low"]))
        self.assertEqual(srtf["n"], 3)
        for name, want in (("mean", 0.6), ("low", 0.6 - half), ("high", 0.6 + half)):
            self.assertAlmostEqual(srtf[name], want, 9)

    def test_student(self) -> None:
        for freedom, want in ((1, 12.706), (30, 2.042), (31, 2.040), (60, 2.000), (100, 1.984)):
            self.assertAlmostEqual(norn.results._student(freedom), want, delta=6e-4)

    def test_refused(self) -> None:
        for path, text, error in (
            ("none", None, "none is no folder"),
            ("empty/readme", "hello", "has no results of norn sim --out"),
            ("bad/run/jobs.csv", JOBS.replace(",0.5,", ",half,"), "jobs.csv: .*half"),
            ("torn/run/summary.json", "{", "summary.json: "),
        ):
            if text is not None:
                self.write(path, text)
            if path.startswith("torn"):
                self.write("torn/run/jobs.csv", JOBS)
            with self.assertRaisesRegex((FileNotFoundError, ValueError), error):
                norn.results.load(os.path.join(self.dir.name, path.split("/")[0]))
        with self.assertRaisesRegex(ValueError, "has no column metric"):
            norn.results.sweep(self.write("x.csv", "policy,seed,value\n"))
        s = norn.results.sweep(self.write("s.csv", SWEEP))
        with self.assertRaisesRegex(ValueError, "no run is called x: there are fifo, srtf"):
            norn.results.ratios(s, baseline="x", metric="jct_mean_s")
        with self.assertRaisesRegex(ValueError, "no metric is called x: there are gpu_utilisation, jct_mean_s"):
            norn.results.ratios(s, baseline="fifo", metric="x")


if __name__ == "__main__":
    unittest.main()
