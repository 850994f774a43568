package trace

import (
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/unit"
)

// Helios: Slurm logs of four SenseTime clusters, April to September 2020 (Hu et
// al., SC 2021), and what Lucid (ASPLOS 2023) makes of them.

const heliosZone = "times of day are local (UTC+8), taken as they stand"

// helios is the log of the GPU jobs of the cluster Venus.
func helios() Format {
	f := CSV("helios", "SenseTime Helios Venus, GPU jobs (SC 2021)", func(in *Input) *Table {
		in.Note(heliosZone)
		in.Note("jobs whose end is not told count as passed")
		return &Table{Columns: []Column{
			Col("job_id", Key),
			Unused("row_in_cluster_log"),
			Col("submit_time", SubmitWall),
			Col("num_gpus", GPUs),
			Col("duration_s", Work(time.Second)),
			Col("duration_clamped", func(r *Row, v []byte) error { r.Truth.AtLeast = string(v) == "1"; return nil }),
			Col("qssf_lgb_priority", Rank),
			Col("lucid_ebm_priority", lucidPrediction),
			Col("user", User),
			Ignored("cpu_num"), // known for one job in eleven only
			Ignored("node_num"),
			Col("status", Ended),
		}}
	})
	f.Clock, f.Order = Unix, Sorted
	return f
}

// lucidPrediction stores the run time that Lucid's model predicts. It may be
// negative, which is kept as the shortest there is.
func lucidPrediction(r *Row, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	d, ok := ParseTimes(v, time.Second)
	if !ok {
		return wantNumber
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
		var nodes int32
		return &Table{Columns: []Column{
			Col("job_id", Key),
			Col("user", User),
			Col("vc", Tenant),
			Col("jobname", Name),
			Col("gpu_num", GPUs),
			Col("cpu_num", CPUs),
			Opt("node_num", func(_ *Row, v []byte) error { return setCount(&nodes, v) }),
			Col("state", Ended),
			Col("submit_time", SubmitWall),
			Ignored("start_time"),
			Ignored("end_time"),
			Col("duration", Work(time.Second)),
			Opt("queue", Wait(time.Second)),
			Opt("dataset", Dataset),
			Opt("model", Model),
			Opt("batchsize", Batch),
			Opt("amp", func(r *Row, v []byte) error { r.Hints().Mixed = string(v) == "1"; return nil }),
			Opt("speed", Number(func(r *Row) *float64 { return &r.Hints().Speed })),
			Opt("gpu_util", percent(func(h *job.Hints) *float64 { return &h.GPUUse })),
			Opt("gmem_util", percent(func(h *job.Hints) *float64 { return &h.MemoryUse })),
			Opt("gmem", func(r *Row, v []byte) error { return setScaled(&r.Hints().GPUMemory, v, unit.MiB) }),
		}, Finish: func(r *Row) error { return spreadCPUs(r, nodes) }}
	})
	f.Aliases = []string{"lucid"}
	f.Clock = Unix
	return f
}

// percent stores a share that is written in percent.
func percent(to func(h *job.Hints) *float64) Setter {
	return func(r *Row, v []byte) error {
		if len(v) == 0 {
			return nil
		}
		f, ok := ParseFloat(v)
		if !ok || f < 0 {
			return wantAmount
		}
		*to(r.Hints()) = f / 100
		return nil
	}
}
