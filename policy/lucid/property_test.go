package lucid

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestPacked runs the policy over random worlds in which jobs tell what they
// use and disturb each other. It runs with a profiler and without, with nodes
// that are lent to it, with predictions that change often, and with pairs that
// are taken apart.
func TestPacked(t *testing.T) {
	longtest.Skip(t)
	for name, set := range map[string]map[string]string{
		"defaults": nil,
		"given": {
			"predict": "given", "packing": "on", "profile": "0.4", "profile-time": "15s", "check": "10s",
			"lend": "2", "lend-above": "0", "lend-every": "5s", "return-below": "1", "return-every": "5s",
		},
		"learnt":   {"packing": "on", "profile": "0.3", "profile-time": "20s", "refresh": "20s", "unstable": "0.01", "watch": "5s", "check": "10s", "ratio": "100", "tiny": "1"},
		"forecast": {"quiet": "0", "calm": "0.1", "refresh": "30s", "ratio": "100"},
	} {
		for shape, s := range map[string]simtest.Shape{
			"packed": {Packed: true}, "types": {Packed: true, Types: true, Costs: true}, "operated": {Packed: true, Operated: true, Costs: true}, "failures": {Failures: true, Operated: true},
		} {
			s.Shared = true
			t.Run(name+"/"+shape, func(t *testing.T) {
				simtest.Properties(t, s, func() (sched.Policy, error) {
					c := NewConfig()
					c.Trees.Leaf, c.Trees.Trees = 1, 5
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
