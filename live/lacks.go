package live

import (
	"log/slog"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/state"
)

// lacking says what a policy lives on and this machine cannot give, whatever jobs may tell.
func lacking(c experiment.Choice, s *state.State, speeds perf.Typed, estimator predict.Estimator) (lacks []string) {
	possible := need.Possible(s, need.Beliefs{Speeds: speeds, Sharing: belief()})
	if _, none := estimator.(predict.None); !none {
		possible |= need.Of(need.RunTimes)
	}
	if learns := c.Believe(); learns != nil {
		if _, varied := learns(perf.Prior{}).(perf.Varied); varied {
			possible |= need.Of(need.Devices) // jobs may show it
		}
	}
	for _, l := range c.Needs().Lacks(possible) {
		lacks = append(lacks, l.Text)
	}
	return lacks
}

// tellLacks writes what a policy lacks to the log of the daemon.
func tellLacks(log *slog.Logger, c experiment.Choice, lacks []string) {
	for _, text := range lacks {
		log.Info("the policy lacks what it lives on", "policy", c.String(), "lack", text)
	}
}
