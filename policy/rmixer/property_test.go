package rmixer_test

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestProperties runs every job policy over random worlds in which jobs disturb each
// other, take other memory than estimated, and can run on processors.
func TestProperties(t *testing.T) {
	longtest.Skip(t)
	for name, set := range map[string][][2]string{
		"mix": {}, "type": {{"job-policy", "dyType"}, {"batch-window", "0"}}, "arin": {{"job-policy", "dyArin"}, {"device-policy", "dyWork"}, {"gpu-workers", "2"}},
		"memo": {{"job-policy", "dyMemo"}, {"device-policy", "dyMemo"}}, "sequ": {{"job-policy", "dySequ"}, {"device-policy", "dySequ"}, {"batch-size", "3"}},
		"rand": {{"job-policy", "dyRand"}, {"device-policy", "dyArin"}, {"batch-window", "never"}, {"batch-size", "1"}}, "static": {{"job-policy", "static"}, {"beta", "0"}},
		"cognn": {{"job-policy", "cognn"}, {"worker-idle-mb", "0"}}, "monolithic": {{"job-policy", "monolithic"}}, "mps": {{"job-policy", "mps"}, {"gpu-workers", "3"}},
		"pair": {{"job-policy", "dyPair"}, {"look", "2"}},
		"beta": {{"beta", "0"}, {"batch-window", "10s"}, {"mem-factor", "1"}},
	} {
		build := func() (sched.Policy, error) {
			c := rmixer.NewConfig()
			for _, s := range set {
				if err := c.Params().Set(s[0], s[1]); err != nil {
					return nil, err
				}
			}
			return c.Policy()
		}
		shape := []simtest.Shape{
			{Costs: true, Failures: true}, {Operated: true, Types: true}, {Parts: true},
		}[len(name)%3]
		shape.Shared, shape.Packed = true, true
		t.Run(name, func(t *testing.T) { simtest.Properties(t, shape, build) })
	}
}
