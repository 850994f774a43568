package policy_test

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/simtest"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
)

// TestProperties runs every policy of the table, at its defaults and at the
// settings that change its course, over random worlds of every shape.
func TestProperties(t *testing.T) {
	settings := map[string][]map[string]string{
		"fifo":     {{"mode": "skip"}, {"mode": "easy"}, {"priority": "true", "place": "consolidated"}},
		"sjf":      {{"block": "true"}, {"by": "service"}},
		"las":      {{"1d": "true", "round": "40s"}},
		"tiresias": {{"limits": "200,600", "promote": "1"}, {"rank": "gittins", "limits": "200,600"}, {"1d": "true", "limits": "60", "promote": "2", "place": "consolidated"}},
	}
	shapes := map[string]simtest.Shape{
		"plain":    {},
		"types":    {Types: true},
		"parts":    {Parts: true},
		"costs":    {Costs: true},
		"failures": {Costs: true, Failures: true},
		"tenants":  {Tenants: true, Costs: true},
		"pools":    {Pools: true},
	}
	for _, e := range policy.Table() {
		for i, set := range append([]map[string]string{nil}, settings[e.Name]...) {
			build := func() (sched.Policy, error) {
				c := e.New()
				for k, v := range set {
					if err := c.Params().Set(k, v); err != nil {
						return nil, err
					}
				}
				return c.Policy()
			}
			for name, shape := range shapes {
				t.Run(e.Name+string(rune('0'+i))+"/"+name, func(t *testing.T) {
					if shape.Pools {
						simtest.Properties(t, shape, func() (sched.Policy, error) { return policy.Partitioned(build), nil })
						return
					}
					simtest.Properties(t, shape, build)
				})
			}
		}
	}
}
