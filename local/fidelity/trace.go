package fidelity

import (
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// Generate is a generated trace, compressed: jobs like those of Philly of at most
// so many devices and a run time of at most maxRun, at a load at which they wait.
// Every job ends well in one attempt that takes as long as all its attempts took
// in the trace, and its user knows how long: estimates are the truth.
func Generate(jobs, devices int, seed uint64, load, factor float64, maxRun time.Duration) (experiment.Jobs, error) {
	g, err := gen.New(gen.Options{
		Like: gen.Philly, Jobs: jobs, Seed: seed, GPUs: devices, Load: load, MaxGPUs: devices, MaxRun: maxRun, Tenants: min(devices, 3),
	})
	if err != nil {
		return nil, err
	}
	all, err := experiment.ReadAll(trace.ByKey(g))
	if err != nil {
		return nil, err
	}
	return Compress(all, factor), nil
}

// Compress divides every time of a trace by a factor, and leaves of its jobs what
// a Trial knows: when each comes, how many devices it takes and for how long, and
// for whom.
func Compress(all experiment.Jobs, factor float64) experiment.Jobs {
	out := make(experiment.Jobs, len(all))
	for i := range all {
		was := &all[i]
		work := max(time.Microsecond, shrink(was.Truth.Total(), factor))
		demand := job.GPUs(was.Job.Demand.GPUs())
		out[i].Job = job.Job{
			ID: job.ID(i), Key: strconv.Itoa(i + 1), Name: was.Job.Name, User: was.Job.User, Tenant: was.Job.Tenant,
			Submit: shrink(was.Job.Submit-all[0].Job.Submit, factor), Demand: &demand, Estimate: work,
		}
		out[i].Truth = trace.Truth{Work: work}
	}
	return out
}

// shrink divides a time, to the microsecond.
func shrink(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d)/factor/1e3+0.5) * time.Microsecond
}

// Scale is a policy for a trace that is compressed: its settings that are times,
// or times on GPUs, are divided by the factor, the defaults too. A setting that is
// zero or never stays as it is.
func Scale(c experiment.Choice, factor float64) (experiment.Choice, error) {
	e, err := policy.ByName(c.Policy)
	if err != nil {
		return c, err
	}
	params := e.New().Params()
	for _, s := range c.Settings {
		if err := params.Set(s.Name, s.Value); err != nil {
			return c, err
		}
	}
	out := experiment.Choice{Policy: c.Policy}
	for _, p := range params {
		was := p.Get()
		value := was
		switch {
		case p.Unit == "duration":
			if d, err := unit.ParseSeconds(was); err == nil {
				value = shrink(d, factor).String()
			}
		case strings.Contains(p.Unit, "seconds"):
			value = divided(was, factor)
		}
		if value != p.Default {
			out.Settings = append(out.Settings, experiment.Setting{Name: p.Name, Value: value})
		}
	}
	_, err = out.Make()
	return out, err
}

// divided divides the numbers of a list.
func divided(list string, factor float64) string {
	parts := strings.Split(list, ",")
	for i, p := range parts {
		if v, err := strconv.ParseFloat(p, 64); err == nil {
			parts[i] = strconv.FormatFloat(v/factor, 'g', 9, 64)
		}
	}
	return strings.Join(parts, ",")
}
