package trace

import (
	"bytes"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// The Philly trace: training jobs of a Microsoft cluster, August to December
// 2017 (Jeon et al., ATC 2019), in the forms in which it is published.

const phillyZone = "times of day are the cluster's own (US Pacific), taken as they stand: the hour that came twice on 2017-11-05 is not told apart"

// philly is the log of jobs with all attempts of each.
func philly() Format {
	f := CSV("philly", "Microsoft Philly, jobs with their attempts (ATC 2019)", func(in *Input) *Table {
		var times durations
		in.Note(phillyZone)
		return &Table{
			Columns: []Column{
				Col("submit_time", SubmitWall),
				Col("vc", Tenant).Or("none"),
				Col("num_gpus", GPUs),
				Unused("num_attempts"),
				Col("run_s", Work(time.Second)),
				Col("attempt_run_s", times.attempts).Or("one attempt, of run_s"),
				Col("passed", Flag(func(r *Row) *bool { return &RowState[phillyRow](r).passed })),
				Col("status", phillyStatus).Or("failed, unless passed is 1"),
				Col("user", User).Or("unknown"),
				Ignored("num_nodes"),
				Ignored("match"),
			},
			Finish: finishPhilly,
		}
	})
	f.Clock, f.Order = Unix, Sorted
	return f
}

// phillyRow is what several columns of a row say together.
type phillyRow struct{ passed, killed bool }

func phillyStatus(r *Row, v []byte) error {
	o, ok := outcomeOf(v)
	if !ok {
		return wantOutcome
	}
	RowState[phillyRow](r).killed = o == Killed
	return nil
}

// durations reads lists of run times, of many rows in one piece of memory.
type durations struct{ chunk []time.Duration }

// attempts stores run times joined by "|": those of the failed attempts and,
// last, that of the last one.
func (p *durations) attempts(r *Row, v []byte) error {
	last := bytes.LastIndexByte(v, '|')
	if last >= 0 {
		all, err := p.list(v[:last])
		if err != nil {
			return err
		}
		r.Truth.Attempts = all
	}
	return setTime(&r.Truth.Work, v[last+1:], time.Second)
}

// list reads run times joined by "|".
func (p *durations) list(v []byte) ([]time.Duration, error) {
	n := bytes.Count(v, []byte{'|'}) + 1
	if cap(p.chunk)-len(p.chunk) < n {
		p.chunk = make([]time.Duration, 0, max(512, n))
	}
	from := len(p.chunk)
	for part := range bytes.SplitSeq(v, []byte{'|'}) {
		var d time.Duration
		if err := setTime(&d, part, time.Second); err != nil {
			return nil, Want("times in seconds joined by |, each 0 or more and 100 years at most")
		}
		p.chunk = append(p.chunk, d)
	}
	return p.chunk[from:len(p.chunk):len(p.chunk)], nil
}

func finishPhilly(r *Row) error {
	switch p := RowState[phillyRow](r); {
	case p.passed:
		r.Truth.Outcome = Passed
	case p.killed:
		r.Truth.Outcome = Killed
	default:
		r.Truth.Outcome = Failed
	}
	return nil
}

// phillyPassed is the extract of passed jobs that comes with Sia.
func phillyPassed() Format {
	f := CSV("philly-passed", "Microsoft Philly, jobs that passed (as used by Pollux and Sia)", func(in *Input) *Table {
		in.Note(phillyZone)
		return &Table{Columns: []Column{
			Col("timestamp", SubmitWall),
			Col("duration", Work(time.Second)),
			Col("num_gpus", GPUs),
			Unused("gpu_time"),
			Col("cluster", Tenant).Or("none"),
		}}
	})
	f.Clock, f.Order = Unix, Unsorted
	return f
}

// phillyPCS is the log of one virtual cluster as PCS publishes it. Its service
// is not a run time: it is the run time times the speed-up of a generated model
// on that many GPUs.
func phillyPCS() Format {
	f := CSV("philly-pcs", "Microsoft Philly, one virtual cluster (as used by PCS, OSDI 2024)", func(in *Input) *Table {
		in.Note("run times are turned back from service times by the speed-up tables of PCS")
		return &Table{
			Columns: []Column{
				Col("app_id", Key),
				Col("submit_time", Submit(time.Second)),
				Col("service", Number(func(r *Row) *float64 { return &RowState[pcsRow](r).service })),
				Col("num_jobs", GPUs),
				Unused("sleep_time"),
				Col("model_name", Model),
			},
			Finish: finishPCS,
		}
	})
	f.Order = Sorted
	return f
}

type pcsRow struct{ service float64 } // seconds on one GPU

func finishPCS(r *Row) error {
	curve, ok := afsIterations[r.Job.Model]
	if !ok {
		return r.Wrong("model_name", "a model of PCS")
	}
	n := float64(r.Shape.GPUs) / float64(unit.One)
	return r.setWork("service", round(RowState[pcsRow](r).service*curve.at(n)/curve.at(1), 1e-3))
}

// round is v to the nearest multiple of step.
func round(v, step float64) float64 { return math.Round(v/step) * step }

// phillyAttempts is the list of all attempts of Philly as the lumos study
// publishes it. Which attempts belong to one job is not told, so each is a job.
func phillyAttempts() Format {
	f := CSV("philly-attempts", "Microsoft Philly, every attempt a job (as used by lumos)", func(in *Input) *Table {
		in.Note(phillyZone)
		in.Note("every attempt is a job of its own, because the file does not tell which belong together")
		in.Note("wait_time is not used: it comes from a simulation")
		return &Table{Columns: []Column{
			Col("", Key),
			Col("run_time", Work(time.Second)),
			Unused("wait_time"),
			Col("submit_time", newYorkTime),
			Col("gpu_num", GPUs),
		}}
	})
	f.Clock, f.Order = Unix, Sorted
	return f
}

// endOfSummer is when New York put its clocks back in 2017.
const endOfSummer = 1509861600 * time.Second

// newYorkTime stores a submission whose time of day was taken for that of New
// York when it was turned into a time since 1970; this undoes it.
func newYorkTime(r *Row, v []byte) error {
	at, ok := ParseTimes(v, time.Second)
	if !ok || at < 0 {
		return wantSince
	}
	offset := 4 * time.Hour
	if at >= endOfSummer {
		offset = 5 * time.Hour
	}
	r.Job.Submit = max(0, at-offset)
	return nil
}

// genParallel is the layout in which the Gen-Parallel-Workloads study publishes
// 15,000 attempts of Philly and 15,000 jobs of Helios Venus.
func genParallel() Format {
	f := CSV("gen-parallel", "Philly attempts or Helios Venus jobs (as used by Gen-Parallel-Workloads)", func(in *Input) *Table {
		var at time.Duration // the sum of all intervals
		in.Note("every row is a job of its own, also where several are attempts of one")
		return &Table{Columns: []Column{
			// The interval is read first, so that it counts for later rows if this one has an error.
			Col("interval", func(r *Row, v []byte) error {
				gap, ok := ParseTimes(v, time.Second)
				if !ok || gap < 0 || gap > century-at {
					return wantDuration
				}
				at += gap
				r.Job.Submit = at
				return nil
			}),
			Col("u_id", Key),
			Col("user", User).Or("unknown"),
			Col("gpu_num", GPUs),
			Col("cpu_num", CPUs),
			Col("node_num", nodesOf),
			Col("run_time", Work(time.Second)),
			Unused("wall_time"),
			Col("new_status", Ended),
		}, Finish: spreadCPUs}
	})
	f.Order = Sorted
	return f
}

type nodesRow struct{ nodes int32 }

// nodesOf stores the number of nodes for spreadCPUs.
func nodesOf(r *Row, v []byte) error { return setCount(&RowState[nodesRow](r).nodes, v) }

// spreadCPUs divides the cores of a job without GPUs among its nodes.
func spreadCPUs(r *Row) error {
	if nodes := RowState[nodesRow](r).nodes; r.Shape.GPUs == 0 && nodes > 1 {
		r.Shape.Tasks = nodes
	}
	return nil
}
