package experiment

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Belief is what a scheduler knows of jobs that share a device. The zero value is the
// truth.
type Belief struct {
	Nothing bool    // it believes at first that nobody disturbs anybody
	Noise   float64 // size of the error of each pair of sorts of jobs, see perf.Mistaken; 0: none
	Learns  bool    // it corrects what it believes by what it sees
}

const (
	truth   = "truth"
	nothing = "none"
	learn   = "learn"
)

// ParseBelief reads truth or none, with an error and with learning behind it where they
// are wanted: truth+40%, none+learn, truth+40%+learn.
func ParseBelief(s string) (Belief, error) {
	var b Belief
	parts := strings.Split(s, "+")
	known := parts[0] == truth || parts[0] == nothing
	b.Nothing = parts[0] == nothing
	for i, p := range parts[1:] {
		switch noise, percent := strings.CutSuffix(p, "%"); {
		case p == learn && i == len(parts)-2:
			b.Learns = true
		case percent && i == 0:
			v, err := strconv.ParseFloat(noise, 64)
			known = known && err == nil && v >= 0 && v <= maxNoise
			b.Noise = v / 100
		default:
			known = false
		}
	}
	if !known {
		return b, fmt.Errorf("%q is not what can be believed of jobs that share a GPU: write truth or none, perhaps with an error behind it, and learn where it is corrected by what is seen (truth+40%%, none+learn, truth+40%%+learn)", s)
	}
	return b, nil
}

// Make makes the belief of one run from the truth; nil: nobody disturbs anybody. Its
// errors depend on the seed.
func (b Belief) Make(actual perf.Sharing, seed uint64) perf.Sharing {
	var sort func(*job.Job) string
	if table, ok := actual.(perf.Pairs); ok {
		sort = table.Sort // what was measured apart may be believed apart
	}
	s := actual
	if b.Nothing || s == nil {
		s = perf.Alone{}
	}
	if b.Noise > 0 {
		s = perf.Mistaken{Of: s, Size: b.Noise, Seed: seed, Sort: sort}
	}
	if b.Learns {
		s = &perf.Learner{First: s, Sort: sort}
	}
	return s
}
