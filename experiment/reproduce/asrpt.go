package reproduce

import (
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
)

// aSRPT: its figures are not at hand. The specification sets targets at a load of 0.8, where gangs mind it
// how they are placed. The mean JCT is to be 20 % below that of FIFO with consolidation, and 10 % below
// that of the shortest job first by predictions. Learnt predictions may make it 10 % worse.
func aSRPT() []Study {
	const fifo = "fifo(place=consolidated)"
	study := func(name, policy string, claims ...Claim) Study {
		s := Study{
			System: "a-srpt", Name: name, CPU: 20, Policy: policy, Claims: claims,
			About: "weeks of Philly on 32x8, gangs 1.67 times as fast on few nodes as on more, at a load of 0.8",
		}
		for _, day := range []int{56, 63, 70, 77, 84} {
			s.Worlds = append(s.Worlds, phillyWeek(day, 0.8, func(n int) int { return n }, func(x *experiment.Experiment) {
				x.Model = perf.Analytic{Scaling: 1, Spread: 0.6}
			}))
		}
		s.Quick = s.Worlds[:3]
		return s
	}
	return []Study{
		study("true", "a-srpt",
			Claim{Baseline: fifo, Metric: meanJCT(), Published: atLeast(1.25), Place: "specification 4"},
			Claim{Baseline: "a-srpt(release=at-once)", Metric: meanJCT(), Published: better(), Place: "section 2.4 (recollection)"},
			Claim{Baseline: "a-srpt(theta=1000)", Metric: meanJCT(), Published: better(), Place: "the hold (ours)"},
		),
		study("learnt", "a-srpt(predict=learnt)",
			Claim{Baseline: fifo, Metric: meanJCT(), Published: atLeast(1.25), Place: "specification 4"},
			Claim{Baseline: "qssf", Metric: meanJCT(), Published: atLeast(1.11), Place: "specification 4"},
			Claim{Baseline: "a-srpt", Metric: meanJCT(), Published: atLeast(0.91), Place: "specification 4"},
		),
	}
}
