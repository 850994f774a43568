package gavel_test

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestPackedProperties: packed policies in random worlds, in which they are replaced at
// random moments.
func TestPackedProperties(t *testing.T) {
	longtest.Skip(t)
	for name, set := range map[string]map[string]string{
		"las":          {"round": "10s", "reset": "20s", "gangs": "true"},
		"ftf":          {"objective": "ftf", "round": "10s", "reset": "0s"},
		"hierarchical": {"objective": "hierarchical", "round": "20s", "reset": "0s", "aware": "false", "gangs": "true"},
		"makespan":     {"objective": "makespan", "round": "10s", "reset": "30s", "gangs": "true", "estimate": "true"}, // docs/limits.md has what idle=false does
	} {
		build := func() (sched.Policy, error) {
			c := gavel.NewConfig()
			c.Packed = true
			for k, v := range set {
				if err := c.Params().Set(k, v); err != nil {
					return nil, err
				}
			}
			return c.Policy()
		}
		for world, shape := range map[string]simtest.Shape{
			"packed":   {Packed: true},
			"types":    {Packed: true, Types: true, Costs: true},
			"parts":    {Parts: true, Types: true}, // in packed worlds parts that users ask for do not always fit together
			"operated": {Packed: true, Costs: true, Operated: true},
			"failures": {Costs: true, Failures: true, Operated: true, Tenants: true},
		} {
			shape.Shared = true
			t.Run(name+"/"+world, func(t *testing.T) { simtest.Properties(t, shape, build) })
		}
	}
}
