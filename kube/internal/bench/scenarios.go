package main

import (
	"context"

	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// scenarios are all that is measured, in this order.
func scenarios() []scenario {
	raised := []testenv.Option{testenv.ControllerManager(testenv.Raised()...)}
	return []scenario{
		{"B1", "1,000 single pods, which 16 clients make", func(b *bench, ctx context.Context) error {
			return b.paces(ctx, "B1", "1,000 singles, created and bound", load{pods: 1000, gang: 1, nodes: 200}, 0.9)
		}},
		{"B1w", "1,000 single pods that wait already", func(b *bench, ctx context.Context) error {
			return b.paces(ctx, "B1", "1,000 singles that wait already", load{pods: 1000, gang: 1, nodes: 200, waits: true}, 0.9)
		}},
		{"B2", "125 gangs of 8 bare pods", func(b *bench, ctx context.Context) error {
			return b.paces(ctx, "B2", "125 gangs of 8 bare pods", load{pods: 1000, gang: 8, nodes: 200}, 0.85)
		}},
		{"B3", "125 Jobs of 8, a fast controller manager", func(b *bench, ctx context.Context) error {
			return b.paces(ctx, "B3", "125 Jobs of 8, fast controller manager", load{pods: 1000, gang: 8, jobs: true, nodes: 200, plane: raised}, 0.9)
		}},
		{"B3d", "25 Jobs of 8, a controller manager with its defaults", func(b *bench, ctx context.Context) error {
			return b.paces(ctx, "B3", "25 Jobs of 8, controller manager as it is", load{pods: 200, gang: 8, jobs: true, nodes: 200, plane: []testenv.Option{testenv.ControllerManager()}}, 0.9)
		}},
		{"B4", "100 Jobs of 8 preempt on a full cluster", (*bench).preempt},
		{"B6", "a start in a cluster of 5,000 nodes, 40,000 pods, 10,000 Jobs", (*bench).restart},
		{"B7", "why 10 pods of 8 GPUs cannot start on 500 full nodes", (*bench).verdict},
		{"B9", "Knavigator's 53 gangs on 32 nodes", (*bench).pack},
		{"B10", "a Norn that has nothing to do", (*bench).idle},
		{"queue", "10,000 Jobs that wait", (*bench).queue},
	}
}
