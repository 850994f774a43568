package experiment

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/perf/predict"
)

// Estimate is what a policy may know about run times.
type Estimate struct {
	From   From
	Noise  float64 // size of the error that is put on it, see predict.LogNormal; 0: none
	Helios bool    // the error is that of predict.Helios instead
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
	switch {
	case e.Helios:
		return fromNames[e.From] + "+" + helios
	case e.Noise == 0:
		return fromNames[e.From]
	}
	return fromNames[e.From] + "+" + strconv.FormatFloat(100*e.Noise, 'g', 12, 64) + "%"
}

// helios names the errors that Helios made.
const helios = "helios"

// ParseEstimate reads oracle, none, user or history, each with an error behind it
// where one is wanted: oracle+50%, or oracle+helios for errors as large as those
// that Helios made.
func ParseEstimate(s string) (Estimate, error) {
	name, noise, noisy := strings.Cut(s, "+")
	var e Estimate
	known := false
	for i, n := range fromNames {
		if n == name {
			e.From, known = From(i), true
		}
	}
	switch {
	case noise == helios:
		e.Helios = true
	case noisy:
		v, err := strconv.ParseFloat(strings.TrimSuffix(noise, "%"), 64)
		known = known && err == nil && v >= 0 && v <= maxNoise && strings.HasSuffix(noise, "%")
		e.Noise = v / 100
	}
	if !known {
		return e, fmt.Errorf("%q is not a source of estimates: write %s, perhaps with an error behind it (oracle+50%%, oracle+helios)", s, strings.Join(fromNames[:], ", "))
	}
	return e, nil
}

// maxNoise is the largest error that can be asked for, in percent: by then
// estimates say nothing.
const maxNoise = 1e6

// Make makes the estimator of one run. Its errors depend on the seed.
func (e Estimate) Make(oracle predict.Estimator, seed uint64) (predict.Estimator, error) {
	var est predict.Estimator
	switch e.From {
	case Oracle:
		est = oracle
	case None:
		return predict.None{}, nil
	case User:
		est = predict.User{}
	case History:
		est = predict.NewHistory(predict.DefaultRolling())
	default:
		return nil, fmt.Errorf("source of estimates number %d is not known", e.From)
	}
	switch {
	case e.Helios:
		est = predict.Noisy{Of: est, Seed: seed, Factor: predict.Helios}
	case e.Noise > 0:
		est = predict.Noisy{Of: est, Seed: seed, Factor: predict.LogNormal(e.Noise)}
	}
	return est, nil
}
