package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/param"
)

// Knob is one coordinate of the settings of a policy: a number within a range, or one of several values.
type Knob struct {
	Param  string   // the setting to which it belongs
	Part   string   // which part of a list of numbers it is; empty: all of the setting
	Values []string // all that there are; nil: it is a number
	Low    float64  // the smallest number
	High   float64
	Log    bool // steps are ratios

	start float64 // where the default is, as in Point
}

// number is the number at x, 0 to 1, of the range.
func (k *Knob) number(x float64) float64 {
	if k.Log {
		return k.Low * math.Pow(k.High/k.Low, x)
	}
	return k.Low + (k.High-k.Low)*x
}

// place is where a number lies in the range, 0 to 1.
func (k *Knob) place(v float64) float64 {
	x := (v - k.Low) / (k.High - k.Low)
	if k.Log {
		x = math.Log(v/k.Low) / math.Log(k.High/k.Low)
	}
	return min(1, max(0, x))
}

// Point is settings: of each knob where it stands in its range, 0 to 1, or which of its values it has.
type Point []float64

// Space is the settings of a policy that can be tried.
type Space struct {
	Knobs []Knob

	entry policy.Entry
	fixed []experiment.Setting // by the user
}

// span is how many times smaller or larger than its default a number may become.
const span = 16

// NewSpace is the settings of a policy: numbers and times from a sixteenth of their defaults to sixteen
// times as much, as far as they may go; shares from 0 to 1; all values of words. Those that the choice
// sets stay as they are. It fails on a policy without settings to try.
func NewSpace(c experiment.Choice) (*Space, error) {
	e, err := c.Entry()
	if err != nil {
		return nil, err
	}
	s := &Space{entry: e, fixed: c.Settings}
	for _, p := range e.New().Params() {
		if !slices.ContainsFunc(c.Settings, func(set experiment.Setting) bool { return set.Name == p.Name }) {
			s.Knobs = append(s.Knobs, knobs(p)...)
		}
	}
	if len(s.Knobs) == 0 {
		return nil, fmt.Errorf("policy %s has no settings to try", c)
	}
	return s, nil
}

// knobs are those of a setting.
func knobs(p param.Param) []Knob {
	k := Knob{Param: p.Name}
	switch p.Kind {
	case param.IsBool, param.IsChoice:
		if k.Values = p.Options; p.Kind == param.IsBool {
			k.Values = []string{"false", "true"}
		}
		k.start = float64(max(0, slices.Index(k.Values, p.Default)))
	case param.IsInt, param.IsFloat:
		v, err := strconv.ParseFloat(p.Default, 64)
		switch {
		case err != nil || math.IsInf(v, 0):
			return nil
		case p.Kind == param.IsFloat && p.Most-p.Least <= 1:
			k.Low, k.High = p.Least, p.Most
		case v > 0:
			k.Low, k.High, k.Log = max(p.Least, v/span), min(p.Most, v*span), true
			if p.Kind == param.IsInt {
				k.Low = max(1, k.Low)
			}
		default:
			return nil // nobody knows how large it may sensibly be
		}
		if k.Low >= k.High || k.Log && k.Low <= 0 {
			return nil
		}
		k.start = k.place(v)
	case param.IsDuration:
		d, err := time.ParseDuration(p.Default)
		if err != nil || d <= 0 {
			k.Values = []string{p.Default, "10m", "1h", "6h", "1d"}
			return []Knob{k}
		}
		k.Low, k.High, k.Log = max(1, d.Seconds()/span), d.Seconds()*span, true
		k.start = k.place(d.Seconds())
	case param.IsFloats:
		return thresholds(p)
	case param.IsText:
		return nil
	}
	return []Knob{k}
}

// The parts of a list of numbers that grow: how many, the first, and each over the one before it. So
// every point is a list in order.
const (
	partCount = "how many"
	partFirst = "the first"
	partRatio = "ratio"
)

// thresholds are the knobs of a list of numbers. One that is empty by default is left as it is.
func thresholds(p param.Param) []Knob {
	var all []float64
	for text := range strings.SplitSeq(p.Default, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || v <= 0 || math.IsInf(v, 0) {
			return nil
		}
		all = append(all, v)
	}
	ratio := 10.0
	if len(all) > 1 && all[1] > all[0] {
		ratio = all[1] / all[0]
	}
	count := Knob{Param: p.Name, Part: partCount, Values: []string{"1", "2", "3", "4"}, start: float64(min(4, len(all)) - 1)}
	first := Knob{Param: p.Name, Part: partFirst, Low: all[0] / 100, High: all[0] * 100, Log: true}
	step := Knob{Param: p.Name, Part: partRatio, Low: 2, High: 32, Log: true}
	first.start, step.start = first.place(all[0]), step.place(ratio)
	return []Knob{count, first, step}
}

// Start is the defaults.
func (s *Space) Start() Point {
	p := make(Point, len(s.Knobs))
	for i := range s.Knobs {
		p[i] = s.Knobs[i].start
	}
	return p
}

// Random is a point anywhere.
func (s *Space) Random(r *rand.Rand) Point {
	p := make(Point, len(s.Knobs))
	for i := range s.Knobs {
		if n := len(s.Knobs[i].Values); n > 0 {
			p[i] = float64(r.IntN(n))
		} else {
			p[i] = r.Float64()
		}
	}
	return p
}

// Choice is the policy with the settings of a point, as far as they differ from its defaults. It fails
// on settings that do not go together.
func (s *Space) Choice(p Point) (experiment.Choice, error) {
	c := s.entry.New()
	params := c.Params() // bound once, to know what differs from the defaults
	for _, set := range s.fixed {
		if err := params.Set(set.Name, set.Value); err != nil {
			return experiment.Choice{}, err
		}
	}
	start := s.Start()
	for i := 0; i < len(s.Knobs); {
		n := 1
		for i+n < len(s.Knobs) && s.Knobs[i+n].Param == s.Knobs[i].Param {
			n++
		}
		if !slices.Equal(p[i:i+n], start[i:i+n]) { // the default may lie between what the knobs can tell
			if err := params.Set(s.Knobs[i].Param, s.text(i, n, p)); err != nil {
				return experiment.Choice{}, err
			}
		}
		i += n
	}
	out := experiment.Choice{Policy: s.entry.Name}
	for _, text := range params.Changed() {
		name, value, _ := strings.Cut(text, "=")
		out.Settings = append(out.Settings, experiment.Setting{Name: name, Value: value})
	}
	_, err := c.Policy()
	return out, err
}

// text is the value of a setting of n knobs from one on, as a user writes it.
func (s *Space) text(i, n int, p Point) string {
	k := &s.Knobs[i]
	if n == 3 {
		v, ratio := s.Knobs[i+1].number(p[i+1]), s.Knobs[i+2].number(p[i+2])
		var all []string
		for range int(p[i]) + 1 {
			all = append(all, short(v))
			v *= ratio
		}
		return strings.Join(all, ",")
	}
	if k.Values != nil {
		return k.Values[int(p[i])]
	}
	for _, q := range s.entry.New().Params() {
		if q.Name == k.Param && q.Kind == param.IsInt {
			return strconv.Itoa(int(math.Round(k.number(p[i]))))
		}
	}
	return short(k.number(p[i]))
}

// short is a number with two digits that count.
func short(v float64) string {
	text := strconv.FormatFloat(v, 'g', 2, 64)
	if rounded, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	return text
}
