package experiment

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
)

// ParseCosts reads what transitions cost, each as a user writes it: start=10s,
// checkpoint=5s, restore=20s, migrate=30s, resize=30s, in-place=2s, time-sliced=1s. A cost that the text
// leaves out is that of base, unless base has different costs for gangs of
// several sizes. It fails on another name and on a time that is none, or
// negative.
func ParseCosts(list []string, base perf.Costs) (perf.Costs, error) {
	var c perf.Costs
	if len(base.Tiers) == 0 {
		c.Base = base.Base
	}
	fields := map[string]*time.Duration{
		"start": &c.Base.Start, "checkpoint": &c.Base.Checkpoint, "restore": &c.Base.Restore,
		"migrate": &c.Base.Migrate, "resize": &c.Base.Resize, "in-place": &c.Base.InPlace, "time-sliced": &c.Base.TimeSliced,
	}
	for _, s := range list {
		name, value, _ := strings.Cut(s, "=")
		to := fields[strings.TrimSpace(name)]
		d, err := unit.ParseSeconds(value)
		if to == nil || err != nil || d < 0 {
			return c, fmt.Errorf("%s: write start, checkpoint, restore, migrate, resize, in-place or time-sliced, = and a duration", s)
		}
		*to = d
	}
	return c, nil
}
