package trace

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Helios: Slurm logs of four SenseTime clusters, April to September 2020 (Hu et
// al., SC 2021), and what Lucid (ASPLOS 2023) makes of them.

const heliosZone = "times of day are local (UTC+8), taken as they stand"

// helios is the log of the GPU jobs of the cluster Venus.
func helios() Format {
	f := CSV("helios", "SenseTime Helios Venus, GPU jobs (SC 2021)", func(in *Input) *Table {
		in.Note(heliosZone)
		return &Table{Columns: []Column{
			Col("job_id", Key),
			Unused("row_in_cluster_log"),
			Col("submit_time", SubmitWall),
			Col("num_gpus", GPUs),
			Col("duration_s", Work(time.Second)),
			Col("duration_clamped", Flag(func(r *Row) *bool { return &r.Truth.AtLeast })),
			Col("qssf_lgb_priority", Rank).Or("no prediction"),
			Col("lucid_ebm_priority", lucidPrediction).Or("no prediction"),
			Col("user", User).Or("unknown"),
			Ignored("cpu_num"), // known for one job in eleven only
			Ignored("node_num"),
			Col("status", Ended).Or("passed"),
		}}
	})
	f.Clock, f.Order = Unix, Sorted
	return f
}

// lucidPrediction stores the run time that Lucid's model predicts. It may be
// negative, which is kept as the shortest there is.
func lucidPrediction(r *Row, v []byte) error {
	d, ok := ParseTimes(v, time.Second)
	if !ok || d > century {
		return Want("a number of seconds, 100 years at most")
	}
	r.Hints().GroupEstimate = max(1, d)
	return nil
}

// heliosClamped is the list of the GPU jobs of Venus with durations cut at two
// days, as gpu_scheduler publishes it.
func heliosClamped() Format {
	return arrivalList("helios-clamped", "GPU jobs with durations cut at 48 hours (gpu_scheduler)", "#")
}

// arrivalList is the layout of gpu_scheduler, which it uses for Helios Venus
// and for a sample of Alibaba PAI; the latter begins its names with "ali-".
func arrivalList(name, title, mark string) Format {
	f := CSV(name, title, func(in *Input) *Table {
		return &Table{Columns: []Column{
			Col("job_id", Key),
			Col("arrival_s", Submit(time.Second)),
			Col("service_sec", func(r *Row, v []byte) error {
				err := setTime(&r.Truth.Work, v, time.Second)
				r.Truth.AtLeast = r.Truth.Work >= 48*time.Hour
				return err
			}),
			Col("gpu_count", GPUs),
		}}
	})
	match := f.Match
	f.Match = func(h *Head) int {
		first := h.Columns(1, ',')
		pai := len(first) > 0 && len(first[0]) > 4 && string(first[0][:4]) == "ali-"
		if pai != (mark == "ali-") {
			return 0
		}
		return match(h)
	}
	f.Order = Sorted
	return f
}

// heliosLog is the cluster log of Helios, and the one of Lucid, which has the
// same columns and a generated model for each job.
func heliosLog() Format {
	f := CSV("helios-log", "SenseTime Helios cluster log, also with Lucid's models", func(in *Input) *Table {
		in.Note(heliosZone)
		return &Table{Columns: []Column{
			Col("job_id", Key),
			Col("user", User).Or("unknown"),
			Col("vc", Tenant).Or("none"),
			Col("jobname", Name).Or("none"),
			Col("gpu_num", GPUs),
			Col("cpu_num", CPUs),
			Opt("node_num", nodesOf).Or("one"),
			Col("state", Ended),
			Col("submit_time", SubmitWall),
			Ignored("start_time"),
			Ignored("end_time"),
			Col("duration", Work(time.Second)),
			Opt("queue", Wait(time.Second)).Or("unknown"),
			Opt("dataset", Dataset).Or("unknown"),
			Opt("model", Model).Or("unknown"),
			Opt("batchsize", Batch).Or("unknown"),
			Opt("amp", Flag(func(r *Row) *bool { return &r.Hints().Mixed })).Or("no"),
			Opt("speed", Number(func(r *Row) *float64 { return &r.Hints().Speed })).Or("unknown"),
			Opt("gpu_util", percent(func(h *job.Hints) *float64 { return &h.GPUUse })).Or("unknown"),
			Opt("gmem_util", percent(func(h *job.Hints) *float64 { return &h.MemoryUse })).Or("unknown"),
			Opt("gmem", func(r *Row, v []byte) error { return setScaled(&r.Hints().GPUMemory, v, unit.MiB) }).Or("unknown"),
		}, Finish: spreadCPUs}
	})
	f.Aliases = []string{"lucid"}
	f.Clock = Unix
	return f
}

// mostPercent bounds a share of several GPUs.
const mostPercent = 1e6

// percent stores a share that is written in percent.
func percent(to func(h *job.Hints) *float64) Setter {
	return func(r *Row, v []byte) error {
		f, ok := ParseFloat(v)
		if !ok || f < 0 || f > mostPercent {
			return Want("percent from 0 to 1e6")
		}
		*to(r.Hints()) = f / 100
		return nil
	}
}
