package reproduce

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// Worlds that norn sim cannot make: jobs that are changed on their way from a trace.

// openTrace reads a trace of the data folder into memory.
func openTrace(data, path string, opt trace.Options) (experiment.Jobs, error) {
	src, err := trace.Open(filepath.Join(data, filepath.FromSlash(path)), opt)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return experiment.ReadAll(src)
}

// plain is an experiment on a cluster with nothing else to it.
func plain(nodes string) (*experiment.Experiment, error) {
	spec, err := clusterspec.Parse(nodes)
	return &experiment.Experiment{Spec: spec, Whole: true, Seed: 1}, err
}

// renumbered gives jobs that are left of a trace, or come in another order, new numbers.
func renumbered(jobs experiment.Jobs) experiment.Jobs {
	for i := range jobs {
		jobs[i].Job.ID = job.ID(i)
	}
	return jobs
}

// longJobs is the jobs of an hour and more among the first passed ones of Philly.
func longJobs(first int, nodes string) World {
	const path = "data/philly/sia_philly_passed_jobs.csv.gz"
	return World{Needs: []string{path}, Make: func(data string, _ experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		all, err := openTrace(data, path, trace.Options{Limit: first, Sort: true})
		if err != nil {
			return nil, nil, err
		}
		var jobs experiment.Jobs
		for _, e := range all {
			if e.Truth.Work >= time.Hour {
				jobs = append(jobs, e)
			}
		}
		x, err := plain(nodes)
		return x, renumbered(jobs).Source(), err
	}}
}

// apart is a world in which models are slowed down where the GPUs of a job are apart.
type apart map[string]float64

func (a apart) of(j *job.Job) perf.Analytic { return perf.Analytic{Scaling: 1, Spread: a[j.Model]} }

// Speed implements perf.Model.
func (a apart) Speed(j *job.Job, c *cluster.Cluster, on *cluster.Alloc) float64 {
	return a.of(j).Speed(j, c, on)
}

// On implements perf.Typed.
func (a apart) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	return a.of(j).On(j, c, t, tasks, spread)
}

// searching is so many jobs of apps that search hyper-parameters, on the machines of Themis'
// simulator. Each job uses up to so many GPUs. A start after another or a move costs what
// it does there: 8 s for a checkpoint and 35 s for another container.
func searching(jobs, most int, seed uint64) World {
	return World{Make: func(string, experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		x, err := plain("8x2+12x4")
		if err != nil {
			return nil, nil, err
		}
		x.Seed, x.Model = seed, apart(gen.Spreads())
		x.Estimate = experiment.Estimate{From: experiment.User} // nobody knows who wins
		x.Costs = &perf.Costs{Base: perf.Cost{Checkpoint: 8 * time.Second, Restore: 35 * time.Second, Migrate: 35 * time.Second, Resize: 35 * time.Second}}
		all, err := gen.NewSearch(gen.Search{Jobs: jobs, GPUs: 64, Load: 4, Most: most, Seed: seed})
		return x, trace.FromMemory(all), err
	}}
}

// improving is so many jobs whose losses fall (experiment.AssumeQuality) on 20 machines of 32
// units, one every 15 s on average. Each can use all units, twice as many are twice as fast, and
// sizes change at no cost. As much work comes as all units can do.
func improving(jobs int, seed uint64) World {
	return World{Make: func(string, experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		const units, machine, gap, load = 640, 32, 15.0, 1.0
		x, err := plain(fmt.Sprintf("%dx%d", units/machine, machine))
		if err != nil {
			return nil, nil, err
		}
		x.Seed, x.Assume = seed, experiment.AssumeQuality
		rng := rand.New(rand.NewPCG(seed, 0x736c6171))
		d := job.GPUs(machine)
		d.Roles[0].Min, d.Roles[0].Max = 1, units
		var all []trace.Entry
		at := 0.0
		for i := range jobs {
			work := units * gap * load / machine * (0.5 + rng.Float64())
			all = append(all, trace.Entry{
				Job:   job.Job{ID: job.ID(i), Key: fmt.Sprintf("job%d", i), Submit: time.Duration(at * float64(time.Second)), Demand: &d},
				Truth: trace.Truth{Work: time.Duration(work * float64(time.Second))},
			})
			at += gap * rng.ExpFloat64()
		}
		return x, trace.FromMemory(all), nil
	}}
}

// curves are the times of an iteration of models on 1, 2, ... GPUs, in microseconds.
type curves map[string][]float64

// On implements perf.Typed: speeds are relative to the size that a job asks for.
func (c curves) On(j *job.Job, _ *cluster.Cluster, _ cluster.TypeID, tasks int, _ bool) float64 {
	t, asked := c[j.Model], int(j.Demand.Roles[0].Tasks)
	if len(t) == 0 {
		return float64(tasks) / float64(asked)
	}
	return t[min(asked, len(t))-1] / t[min(tasks, len(t))-1]
}

// Speed implements perf.Model.
func (c curves) Speed(j *job.Job, clu *cluster.Cluster, a *cluster.Alloc) float64 {
	return c.On(j, clu, 0, a.Tasks(0), false)
}

// readCurves reads the models of AFS.
func readCurves(path string) (curves, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows map[string]struct {
		Times []float64 `json:"time_per_iter_us_by_gpus"`
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := curves{}
	for name, row := range rows {
		out[name] = row.Times
	}
	return out, nil
}

// Elastic is a virtual cluster of Philly on 16x4 GPUs in which each job runs on one GPU
// to as many as its model was measured on. Jobs 0 are all.
func Elastic(vc string, jobs int, load float64) World {
	path, models := "data/philly/pcs/trace_"+vc+".csv", "data/pcs_afs/afs_models.json"
	return World{Needs: []string{path, models}, Make: func(data string, _ experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		speeds, err := readCurves(filepath.Join(data, filepath.FromSlash(models)))
		if err != nil {
			return nil, nil, err
		}
		all, err := openTrace(data, path, trace.Options{Limit: jobs, Load: load})
		if err != nil {
			return nil, nil, err
		}
		var in job.Interner
		for i := range all {
			d := *all[i].Job.Demand
			d.Roles[0].Min, d.Roles[0].Max = 1, max(d.Roles[0].Tasks, int32(len(speeds[all[i].Job.Model])))
			all[i].Job.Demand = in.Get(d)
		}
		x, err := plain("16x4")
		if err == nil {
			x.Model = speeds
		}
		return x, all.Source(), err
	}}
}

// tuned is a generated workload of Ymir on 60x4 GPUs. Everybody but Ymir pays the cold
// cost at each start, and knows as much of run times.
func tuned(family string, load float64, jobs int, seed uint64) World {
	command := fmt.Sprintf("go run ./examples/ymir -family %s -gpus 240 -jobs %d -load %g -seed %d -seeds 1 POLICY", family, jobs, load, seed)
	return World{Command: command, Make: func(_ string, c experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		w, err := gen.NewFineTuning(gen.FineTuning{Families: []string{family}, Jobs: int(float64(jobs)*load + 0.5), GPUs: 240, Load: load, Seed: seed})
		if err != nil {
			return nil, nil, err
		}
		x, err := plain("60x4")
		if err != nil {
			return nil, nil, err
		}
		costs := perf.Costs{Switch: map[string]perf.Switch{}}
		for name, cost := range w.Switch {
			if c.Policy != "ymir" {
				cost.Warm, cost.Reverse = cost.Cold, false
			}
			costs.Switch[name] = cost
		}
		x.Estimate, x.Seed, x.Model, x.Costs = experiment.Estimate{From: experiment.User}, seed, w.Speeds, &costs
		if c.Policy == "ymir" {
			x.World, x.Transfer = func(s *sim.Config) { s.Transfer = w.Truth }, w.Belief
		}
		return x, w.Source(), nil
	}}
}

// openbGPUs is what the nodes of openb have.
const openbGPUs = 6212

// inflated is pods of openb, drawn, that stay for ever, until all GPUs are asked for.
func inflated(seed uint64) World {
	const pods, nodes = "data/alibaba_openb2023/openb_pod_list_default.csv.gz", "data/alibaba_openb2023/openb_node_list_gpu_node.csv"
	return World{Needs: []string{pods, nodes}, Make: func(data string, _ experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		spec, err := clusterspec.ReadFile(filepath.Join(data, filepath.FromSlash(nodes)))
		if err != nil {
			return nil, nil, err
		}
		all, err := openTrace(data, pods, trace.Options{})
		if err != nil {
			return nil, nil, err
		}
		r := rand.New(rand.NewPCG(seed, 0))
		var out experiment.Jobs
		for asked := int64(0); asked < openbGPUs*1000; {
			e := all[r.IntN(len(all))]
			asked += int64(e.Job.Demand.Milli(1))
			e.Job.Key, e.Job.Submit, e.Truth = fmt.Sprintf("pod%d", len(out)), time.Duration(len(out))*time.Second, trace.Truth{Work: 1000 * 24 * time.Hour}
			out = append(out, e)
		}
		return &experiment.Experiment{Spec: spec, Seed: seed}, renumbered(out).Source(), nil
	}}
}

// unlike is three users of 12 GPUs of each of two generations whose jobs gain unlike
// much from the faster one, by speeds that the authors of Gavel measured.
func unlike(seed uint64) World {
	const speeds = "data/gavel/simulation_throughputs.json.gz"
	models := []string{"A3C", "ResNet-50 (batch size 64)", "Transformer (batch size 64)"} // 2, 7 and 5 times as fast on a V100 as on a K80
	return World{Needs: []string{speeds}, Make: func(data string, _ experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		table, err := trace.ReadThroughputs(filepath.Join(data, filepath.FromSlash(speeds)), "v100")
		if err != nil {
			return nil, nil, err
		}
		table.Otherwise = perf.Analytic{Scaling: 1, Spread: 1}
		r := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		b.WriteString("job,submit,gpus,duration,tenant,name\n")
		at := 0.0
		for i := range 300 {
			at += r.ExpFloat64() * 240
			fmt.Fprintf(&b, "j%d,%.0f,1,%.0f,user%d,%s\n", i, at, 600+r.ExpFloat64()*5400, i%3, models[i%3])
		}
		src, err := trace.NewReader(strings.NewReader(b.String()), "generated", trace.Options{})
		if err != nil {
			return nil, nil, err
		}
		jobs, err := experiment.ReadAll(src)
		if err != nil {
			return nil, nil, err
		}
		x, err := plain("3x4:V100+3x4:K80")
		if err == nil {
			x.Model = table
		}
		return x, jobs.Source(), err
	}}
}
