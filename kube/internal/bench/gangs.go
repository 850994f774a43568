package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/names"
)

// packing is Knavigator's test of gang packing: so many gangs of so many whole nodes each, in
// this order, for two minutes each. They fill 32 nodes nine times.
var packing = []struct{ gangs, nodes int }{
	{1, 32}, {2, 16}, {3, 10}, {1, 2}, {4, 8}, {5, 6}, {2, 1}, {6, 5}, {1, 2}, {7, 4}, {1, 2}, {2, 1}, {8, 4}, {9, 3}, {1, 5},
}

// pack has the 53 gangs run, with time that passes 10 times as fast.
func (b *bench) pack(ctx context.Context) (err error) {
	const factor, optimum = 10, 18 * time.Minute
	c, err := start(ctx, shape{nodes: 32, factor: factor})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	n, err := b.startNorn(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	began, pods, gang := time.Now(), 0, 0
	for _, s := range packing {
		for range s.gangs {
			name := fmt.Sprintf("g%02d", gang)
			err := each(s.nodes, clients, func(i int) error {
				p := &core.Pod{ObjectMeta: meta.ObjectMeta{
					Namespace: space, Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{names.Gang: name},
					Annotations: map[string]string{names.GangSize: fmt.Sprint(s.nodes), fakekubelet.RunTime: "2m"},
				}, Spec: podSpec(names.Scheduler, gpus)}
				return c.makePod(ctx, p)
			})
			if err != nil {
				return err
			}
			pods, gang = pods+s.nodes, gang+1
		}
	}
	err = until(ctx, "all gangs have run", 20*time.Minute, func() (bool, error) {
		s, err := n.Status(ctx)
		bound, _, _ := c.count()
		return err == nil && bound == pods && s.Running+s.Waiting+s.Stopping+s.Held == 0, nil
	})
	if err != nil {
		return err
	}
	took := time.Duration(float64(time.Since(began)) * factor)
	b.add(row{
		Bar: "B9", Scenario: fmt.Sprintf("Knavigator's %d gangs on 32 nodes, time 10 times as fast", gang), What: "makespan, virtual minutes",
		Norn: took.Minutes(), Limit: optimum.Minutes(), Bound: "1.05 of the optimum", Met: took.Minutes() <= 1.05*optimum.Minutes(),
	})
	return nil
}
