package reproduce

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// freetrain: up to 93 % of what the same nodes would do for trainers whose changes of size
// are free, and more than with equal shares. No table is published; the bound is that of the
// specification.
func freetrain() []Study {
	study := func(name, set string) Study {
		return Study{
			System: "freetrain", Name: name, CPU: 10, Policy: "freetrain(horizon=5m)",
			About:  "the first ten trainers of the set " + set + " for a day on the nodes that ThetaGPU left idle, 20 s for a change of size",
			Worlds: idleDays(set, 30, 75, 120, 165), Quick: idleDays(set, 30, 75, 120),
			Claims: []Claim{
				{Baseline: freeChanges, Metric: work(), Published: atLeast(0.85), Place: "specification, acceptance 6: costs of at most a tenth of the interval"},
				{Baseline: "freetrain(horizon=5m,rule=equal)", Metric: work(), Published: better(), Place: "equal shares"},
			},
		}
	}
	return []Study{study("imagenet", "ImageNet-spdup-JNPs-1001J"), study("shufflenet", "hps-shufflenet-JNPs-1000J")}
}

// freeChanges is the policy for which changes of size are free: the ideal.
const freeChanges = "freetrain(horizon=1d)"

func idleDays(set string, days ...int) (out []World) {
	for _, day := range days {
		out = append(out, idle(set, day))
	}
	return out
}

// idle is a day on the nodes that a supercomputer left idle, from a day of its log on.
func idle(set string, day int) World {
	jobs, log := "data/bftrainer/"+set+".json.gz", "data/thetagpu/data_thetagpu.csv.gz"
	return World{Needs: []string{jobs, log}, Make: func(data string, c experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		x, err := plain("24x1")
		if err != nil {
			return nil, nil, err
		}
		curves, trainers, err := bftrainer(filepath.Join(data, filepath.FromSlash(jobs)), 10)
		if err != nil {
			return nil, nil, err
		}
		loans, err := idleNodes(filepath.Join(data, filepath.FromSlash(log)), time.Duration(day)*24*time.Hour)
		x.Model, x.Costs = curves, &perf.Costs{Base: perf.Cost{InPlace: 20 * time.Second}}
		if c.String() == freeChanges {
			x.Costs = &perf.Costs{}
		}
		x.World = func(cfg *sim.Config) {
			cfg.Loans, cfg.Snapshot = loans, time.Second
			for i := range trainers {
				cfg.Script = append(cfg.Script, eventlog.Event{Time: 24 * time.Hour, Kind: eventlog.Cancel, Job: job.ID(i)})
			}
		}
		return x, trainers.Source(), err
	}}
}

// idleNodes is when the nodes of a machine were idle for a day, from a moment of the log on.
func idleNodes(log string, from time.Duration) (out []trace.Loan, err error) {
	src, err := trace.Open(log, trace.Options{Sort: true})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var text bytes.Buffer
	if err := (&gen.Idle{Nodes: 24, GPUs: 1}).Write(&text, src); err != nil {
		return nil, err
	}
	all, err := trace.ReadLoans(&text, log, trace.LoanOptions{})
	for _, l := range all {
		if l.At < from+24*time.Hour { // what was before is as it stands then
			l.At = max(0, l.At-from)
			out = append(out, l)
		}
	}
	return out, err
}

// byNodes is by the name of a job its speed at each number of nodes, over that at one.
type byNodes map[string][]float64

// On implements perf.Typed.
func (c byNodes) On(j *job.Job, _ *cluster.Cluster, _ cluster.TypeID, tasks int, _ bool) float64 {
	return c[j.Name][min(tasks, len(c[j.Name])-1)]
}

// Speed implements perf.Model.
func (c byNodes) Speed(j *job.Job, _ *cluster.Cluster, a *cluster.Alloc) float64 {
	return c.On(j, nil, 0, a.Tasks(0), false)
}

// bftrainer reads the first trainers of a set, which never end.
func bftrainer(path string, n int) (byNodes, experiment.Jobs, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return nil, nil, err
	}
	var set []struct {
		Job string    `json:"job"`
		Ns  []int     `json:"Ns"`
		Ps  []float64 `json:"Ps"` // samples per second, by Ns
	}
	if err := json.NewDecoder(packed).Decode(&set); err != nil {
		return nil, nil, err
	}
	of, jobs := byNodes{}, experiment.Jobs{}
	for i, s := range set[:min(n, len(set))] {
		rates := []float64{0}
		for k := 1; k < len(s.Ns); k++ { // straight lines in between
			for m := s.Ns[k-1] + 1; m <= s.Ns[k]; m++ {
				part := float64(m-s.Ns[k-1]) / float64(s.Ns[k]-s.Ns[k-1])
				rates = append(rates, (s.Ps[k-1]+(s.Ps[k]-s.Ps[k-1])*part)/s.Ps[1])
			}
		}
		of[s.Job] = slices.Clip(rates)
		d := job.GPUs(1)
		d.Roles[0].Max = 24
		jobs = append(jobs, trace.Entry{
			Job:   job.Job{ID: job.ID(i), Key: s.Job, Name: s.Job, Demand: &d, Resize: job.InPlace},
			Truth: trace.Truth{Work: 1000 * 24 * time.Hour},
		})
	}
	return of, jobs, nil
}
