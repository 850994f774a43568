package gimbal

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestWorlds runs the policy over random worlds in which jobs tell what they use and
// disturb each other, replaced by a new one at random moments, at settings that change its
// course. The world is another one than the policy believes in.
func TestWorlds(t *testing.T) {
	longtest.Skip(t)
	for name, set := range map[string]map[string]string{
		"defaults": nil, "makespan": {"objective": "makespan", "protect": "true", "order": "fifo", "gain": "0", "patience": "7s", "rest": "0s"},
		"fair": {"objective": "fairness", "order": "las", "straggler": "1", "faster": "0", "rest": "3s", "gain": "0"}, "equal": {"pack": "equal", "calibrate": "false", "gain": "0"},
		"deadline": {"objective": "deadline", "step": "300", "tries": "1", "memory": "1"},
	} {
		for shape, s := range map[string]simtest.Shape{
			"types": {Packed: true, Types: true, Costs: true}, "operated": {Packed: true, Operated: true, Costs: true}, "failures": {Failures: true, Operated: true},
		} {
			s.Shared = true
			t.Run(name+"/"+shape, func(t *testing.T) {
				simtest.Properties(t, s, func() (sched.Policy, error) {
					c := NewConfig()
					for k, v := range set {
						if err := c.Params().Set(k, v); err != nil {
							return nil, err
						}
					}
					return c.Policy()
				})
			})
		}
	}
}
