package draw

import (
	"math"
	"strconv"
	"strings"
)

// scale puts the values of an axis on paper.
type scale struct {
	*Axis
	low, high   float64 // values
	start, stop float64 // on paper
}

// extreme is the largest number that an axis can have.
const extreme = 1e30

// newScale finds the range of an axis over values.
func newScale(a *Axis, values func(yield func(float64))) scale {
	s := scale{Axis: a, low: math.Inf(1), high: math.Inf(-1)}
	values(func(v float64) {
		if !(math.Abs(v) <= extreme) || a.Log && v < 1/extreme {
			return
		}
		s.low, s.high = min(s.low, v), max(s.high, v)
	})
	if s.low > s.high {
		s.low, s.high = 0, 1
		if a.Log {
			s.low = 0.1
		}
	}
	switch {
	case a.Names != nil:
		s.low, s.high = -0.5, float64(len(a.Names))-0.5
	case a.From != a.To:
		s.low, s.high = a.From, a.To
	case a.Log:
		s.around()
	case a.Zero:
		s.low, s.high = min(0, s.low), max(0, s.high)
		s.high += 0.05 * (s.high - s.low)
	}
	if wide := s.high - s.low; !(wide > 1e-9*max(math.Abs(s.low), math.Abs(s.high))) {
		s.high = s.low + max(1, math.Abs(s.low)/10)
	}
	return s
}

// around gives a logarithmic axis some room.
func (s *scale) around() {
	if s.high < s.low*1.1 {
		s.low, s.high = s.low/2, s.high*2
		return
	}
	s.low, s.high = s.low/1.05, s.high*1.1
}

// at is the place of a value on paper. What is outside lies far away, but not too far for
// viewers.
func (s *scale) at(v float64) float64 {
	part := 0.0
	if s.Log {
		part = math.Log(max(v, s.low*1e-3)/s.low) / math.Log(s.high/s.low)
	} else {
		part = (v - s.low) / (s.high - s.low)
	}
	return s.start + (s.stop-s.start)*min(max(part, -20), 20)
}

// tick is a mark on an axis.
type tick struct {
	at    float64
	text  string
	minor bool
}

// ticks are the marks of a numeric axis, at most so many with texts.
func (s *scale) ticks(most int) []tick {
	if s.Log {
		return s.decades(most)
	}
	step := stepFor((s.high - s.low) / float64(max(1, most)))
	var out []tick
	for i := math.Ceil(s.low/step - 1e-9); i*step <= s.high+step*1e-9; i++ {
		out = append(out, tick{at: i * step, text: s.text(i*step, step)})
	}
	return out
}

// stepFor is the least of 1, 2, 2.5 and 5 times a power of ten that is not below a step.
func stepFor(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= step*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// text writes a value of an axis whose ticks are a step apart.
func (s *scale) text(v, step float64) string {
	if s.Percent {
		v, step = v*100, step*100
	}
	digits := 0
	for d := step; digits < 6 && math.Abs(d-math.Round(d)) > 1e-6*d; digits++ {
		d = step * math.Pow(10, float64(digits+1))
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-")
	}
	if s.Percent {
		return text + "%"
	}
	return grouped(text)
}

// grouped puts commas between thousands from 10,000 on.
func grouped(text string) string {
	whole, rest, _ := strings.Cut(text, ".")
	if len(strings.TrimPrefix(whole, "-")) < 5 {
		return text
	}
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}

// decades are the ticks of a logarithmic axis: powers of ten with texts, some left out where
// there are many, and 2 to 9 times these without, or with texts where there is hardly a power.
func (s *scale) decades(most int) []tick {
	first, last := math.Ceil(math.Log10(s.low)-1e-9), math.Floor(math.Log10(s.high)+1e-9)
	every := max(1, math.Ceil((last-first+1)/float64(max(2, most))))
	narrow := s.high/s.low < 30
	var out []tick
	for e := first - 1; e <= last; e++ {
		if every > 1 && math.Mod(e-first, every) != 0 {
			continue
		}
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < s.low*(1-1e-9) || v > s.high*(1+1e-9) || m > 1 && every > 1 {
				continue
			}
			t := tick{at: v, minor: m > 1}
			if m == 1 || narrow && (m == 2 || m == 5) {
				t.text = s.power(v)
			}
			out = append(out, t)
		}
	}
	return out
}

// power writes a value of a logarithmic axis.
func (s *scale) power(v float64) string {
	switch {
	case s.Percent:
		return strconv.FormatFloat(v*100, 'g', 4, 64) + "%"
	case v >= 1e6 || v < 1e-4:
		return strings.NewReplacer("e+0", "e", "e-0", "e-", "e+", "e").Replace(strconv.FormatFloat(v, 'e', -1, 64))
	}
	return grouped(strconv.FormatFloat(v, 'f', -1, 64))
}
