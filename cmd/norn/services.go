package main

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
	"github.com/norn-scheduler/norn/unit"
)

// assumeServices is what a user writes to have online services on all GPUs, beside
// which the jobs of any trace run.
const assumeServices = "services"

// servicesFor is for how long services run.
const servicesFor = 7 * 24 * time.Hour

// serve puts a service on each GPU of the cluster, ahead of the jobs of a trace, which
// use as much of their GPUs as is assumed where they tell nothing. Who shares with a
// service is kept to its part, and a part of those that fail take the service down.
func (f *simFlags) serve(x *run.Experiment, src trace.Source) (trace.Source, func() string, error) {
	site, err := x.Spec.Build()
	if err != nil {
		return nil, nil, err
	}
	of := gen.Services{For: servicesFor, Seed: f.seed}
	for p := range cluster.PoolID(site.Cluster.Pools()) {
		of.Services += site.Cluster.TotalGPUs(p, 0)
	}
	for t := range cluster.TypeID(site.Cluster.Types()) {
		if m := site.Cluster.Type(t).Memory; m > 0 && (of.Memory == 0 || m < of.Memory) {
			of.Memory = m
		}
	}
	if of.Memory == 0 {
		of.Memory = 32 * unit.GiB
	}
	use := &gen.AssumedUse{Source: src, Seed: f.seed}
	world := x.World
	x.World = func(c *sim.Config) {
		if world != nil {
			world(c)
		}
		c.Sharing, c.Measure, c.Load = perf.Served{}, true, of.Load()
		c.Crash, c.Reset = 0.01, 20*time.Second
	}
	services := &gen.AssumedServices{Source: use, Of: of}
	return services, func() string {
		return fmt.Sprintf("%s were put on the GPUs, each of which uses a part of one for %s, more by day than by night; what %s use of their GPUs was not told, and was drawn (--assume %s, --seed %d)",
			count(services.Jobs, "service"), unit.Human(servicesFor), count(use.Jobs, "job"), f.assume, f.seed)
	}, nil
}
