package run

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/predict"
)

// Estimate is what a policy may know about run times.
type Estimate struct {
	From  From
	Noise float64 // relative size of the error that is added; 0: none
}

// From is where estimates come from.
type From uint8

// The sources of estimates.
const (
	Oracle From = iota // the truth
	None
	User    // the user's word
	History // learnt from the jobs that have ended
)

var fromNames = [...]string{"oracle", "none", "user", "history"}

// String writes the estimate as a user would.
func (e Estimate) String() string {
	if e.Noise == 0 {
		return fromNames[e.From]
	}
	return fromNames[e.From] + "+" + strconv.FormatFloat(100*e.Noise, 'g', -1, 64) + "%"
}

// ParseEstimate reads oracle, none, user or history, each with a relative error
// behind it where one is wanted: oracle+50%.
func ParseEstimate(s string) (Estimate, error) {
	name, noise, noisy := strings.Cut(s, "+")
	var e Estimate
	known := false
	for i, n := range fromNames {
		if n == name {
			e.From, known = From(i), true
		}
	}
	if noisy {
		v, err := strconv.ParseFloat(strings.TrimSuffix(noise, "%"), 64)
		known = known && err == nil && v >= 0 && strings.HasSuffix(noise, "%")
		e.Noise = v / 100
	}
	if !known {
		return e, fmt.Errorf("%q is not a source of estimates: write %s, perhaps with an error behind it (oracle+50%%)", s, strings.Join(fromNames[:], ", "))
	}
	return e, nil
}

// Make makes the estimator.
func (e Estimate) Make(oracle predict.Estimator, seed uint64) (predict.Estimator, error) {
	var est predict.Estimator
	switch e.From {
	case Oracle:
		est = oracle
	case None:
		est = predict.None{}
	case User:
		est = predict.User{}
	case History:
		return nil, fmt.Errorf("estimates from history are not there yet")
	}
	return est, nil
}
