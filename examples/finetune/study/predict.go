package main

import (
	"fmt"
	"math"

	"github.com/norn-scheduler/norn/policy/ymir/estimator"
)

// forecast is how well similarity and regression foretell what tasks give each other.
// Each gain is foretold by a regression of all other pairs.
type forecast struct {
	Family  string      `json:"family"`
	How     string      `json:"how"`
	Pearson float64     `json:"pearson"` // of similarity and gain
	Error   float64     `json:"error"`   // mean of |foretold - measured| over measured, of 1 + gain
	Signs   float64     `json:"signs"`   // share of pairs whose gain has the sign foretold
	Clear   float64     `json:"clear"`   // the same, of pairs whose gain is at least clear
	Speed   float64     `json:"speed"`   // Pearson's coefficient of similarity and the logarithm of how many times fewer steps
	Pairs   []predicted `json:"pairs"`
}

// predicted is one pair of a forecast.
type predicted struct {
	From       string  `json:"from"`
	To         string  `json:"to"`
	Similarity float64 `json:"similarity"`
	Gain       float64 `json:"gain"`
	Foretold   float64 `json:"foretold"`
	SpeedUp    float64 `json:"speed_up"` // how many times fewer steps it needs
}

// clear is the least gain that is more than noise: two standard deviations of the
// difference of two accuracies of 50 % on 2,000 samples, relatively.
const clear = 0.045

// foretell holds the gains of pairs against what is foretold of them. Pairs of one and
// the same task are left out: nobody doubts that they gain.
func (f *family) foretell(how string, pairs []pair) forecast {
	out := forecast{Family: f.Family, How: how}
	var s, g, logs []float64
	for _, p := range pairs {
		if p.From == p.To {
			continue
		}
		x := predicted{From: p.From, To: p.To, Similarity: f.similarity(p, how), Gain: f.gain(p), SpeedUp: f.speedUp(p)}
		out.Pairs = append(out.Pairs, x)
		s, g, logs = append(s, x.Similarity), append(g, x.Gain), append(logs, math.Log(x.SpeedUp))
	}
	out.Pearson, out.Speed = pearson(s, g), pearson(s, logs)
	n, clearPairs := float64(len(s)), 0.0
	for i := range out.Pairs {
		x := &out.Pairs[i]
		x.Foretold, _ = f.regressed(how, pair{From: x.From, To: x.To}, f.gain) // 0 where there are too few others
		out.Error += math.Abs(x.Foretold-x.Gain) / (1 + x.Gain) / n
		right := 0.0
		if (x.Foretold > 0) == (x.Gain > 0) {
			right = 1
		}
		out.Signs += right / n
		if math.Abs(x.Gain) >= clear {
			out.Clear, clearPairs = out.Clear+right, clearPairs+1
		}
	}
	out.Clear /= max(1, clearPairs)
	return out
}

// regressed is a value of a pair as a regression of all pairs but it foretells it. Pairs
// of one and the same task are not learnt from.
func (f *family) regressed(how string, p pair, value func(pair) float64) (float64, error) {
	pairs := f.After
	if how == together {
		pairs = f.Together
	}
	var s, g []float64
	for _, x := range pairs {
		if x.From != x.To && (x.From != p.From || x.To != p.To) {
			s, g = append(s, f.similarity(x, how)), append(g, value(x))
		}
	}
	line, err := estimator.FitLine(s, g)
	if err != nil {
		return 0, fmt.Errorf("%s, %s to %s: %w", f.Family, p.From, p.To, err)
	}
	return line.Gain(f.similarity(p, how)), nil
}

// similarity is the mean over seeds.
func (f *family) similarity(p pair, how string) float64 {
	a, b := f.task(p.From).Embedding, f.task(p.To).Embedding
	sum := 0.0
	for i := range a {
		ab, ba := estimator.Similarity(a[i], b[i]), estimator.Similarity(b[i], a[i])
		if how == together {
			ab = estimator.Both(ab, ba)
		}
		sum += ab
	}
	return sum / float64(len(a))
}

// pearson is the coefficient of correlation, 0 where one of both does not vary.
func pearson(x, y []float64) float64 {
	mx, my := mean(x), mean(y)
	var xx, yy, xy float64
	for i := range x {
		xx, yy, xy = xx+(x[i]-mx)*(x[i]-mx), yy+(y[i]-my)*(y[i]-my), xy+(x[i]-mx)*(y[i]-my)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

func printGains(all []forecast) {
	title("Gains foretold by similarity and regression, each from all other pairs")
	fmt.Printf("%-10s %-9s %5s %9s %9s %6s %15s %15s\n", "family", "how", "pairs", "Pearson r", "error", "signs", "of clear gains", "r of speed-ups")
	for _, f := range all {
		fmt.Printf("%-10s %-9s %5d %9.2f %8.1f%% %5.0f%% %14.0f%% %15.2f\n", f.Family, f.How, len(f.Pairs), f.Pearson, 100*f.Error, 100*f.Signs, 100*f.Clear, f.Speed)
	}
	for _, f := range all {
		fmt.Printf("\n%s, %s: similarity, gain measured, gain foretold\n", f.Family, f.How)
		for _, p := range f.Pairs {
			fmt.Printf("  %-10s %-10s %6.3f %+6.2f %+6.2f\n", p.From, p.To, p.Similarity, p.Gain, p.Foretold)
		}
	}
}
