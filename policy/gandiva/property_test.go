package gandiva

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/sim/simtest"
)

// The invariants of every run (package policy tests them with jobs that tell nothing)
// where jobs tell what they use, so that they are packed and disturb each other.
func TestPackedProperties(t *testing.T) {
	quick := func(c *Config) { c.Quantum, c.Every, c.Measure = 5*time.Second, 5*time.Second, 5*time.Second }
	for name, shape := range map[string]simtest.Shape{
		"packed":   {Shared: true, Packed: true},
		"costs":    {Shared: true, Packed: true, Costs: true},
		"failures": {Shared: true, Packed: true, Failures: true, Operated: true},
	} {
		t.Run(name, func(t *testing.T) { simtest.Properties(t, shape, with(nil)) })
		t.Run(name+", often", func(t *testing.T) { simtest.Properties(t, shape, with(quick)) })
	}
}
