package live

import (
	"slices"

	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/policy/need"
)

// findLacks finds out what the policy lives on and this machine cannot give, whatever jobs
// may tell. The log of the daemon tells it once.
func (d *Daemon) findLacks() {
	possible := need.Possible(d.st, need.Beliefs{Speeds: d.cfg.Speeds, Sharing: belief()})
	if _, none := d.cfg.Estimator.(predict.None); !none {
		possible |= need.Of(need.RunTimes)
	}
	was := d.lacks
	d.lacks = nil
	for _, l := range d.choice.Needs().Lacks(possible) {
		d.lacks = append(d.lacks, l.Text)
	}
	if !slices.Equal(d.lacks, was) {
		for _, text := range d.lacks {
			d.log.Info("the policy lacks what it lives on", "policy", d.choice.String(), "lack", text)
		}
	}
}
