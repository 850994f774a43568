package job

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rung is a step of a search by successive halving. So many jobs of an app each do so
// much work on it, and the best of them go on to the next rung.
//
// Source: Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and
// Hyperparameter Optimization", AISTATS 2016.
type Rung struct {
	Jobs  int32
	Units float64 // of work, beyond those of the rungs before
}

// MaxRungs is the largest number of rungs of a search.
const MaxRungs = 12

// Rungs are the rungs of a search, in order. Those behind the last one are zero.
type Rungs [MaxRungs]Rung

// ParseRungs reads rungs as String writes them, JOBSxUNITS joined by plus signs: 4x8+2x16
// is four jobs for 8 units each, the best two of which go on for 16 more. The empty text
// is no rungs.
func ParseRungs(s string) (out Rungs, err error) {
	if s == "" {
		return out, nil
	}
	parts := strings.Split(s, "+")
	if len(parts) > MaxRungs {
		return Rungs{}, fmt.Errorf("%d rungs; at most %d are allowed", len(parts), MaxRungs)
	}
	for i, part := range parts {
		jobs, units, _ := strings.Cut(strings.TrimSpace(part), "x")
		n, err := strconv.ParseInt(jobs, 10, 32)
		w, bad := strconv.ParseFloat(units, 64)
		if err != nil || bad != nil {
			return Rungs{}, fmt.Errorf("%q is no rung: write JOBSxUNITS, as in 4x8", part)
		}
		out[i] = Rung{int32(n), w}
	}
	return out, out.check()
}

var errWidens = errors.New("more jobs are on a rung than on the one before it")

func (r *Rungs) check() error {
	for i, x := range r.All() {
		switch {
		case x.Jobs < 1 || x.Jobs > MaxTasks:
			return fmt.Errorf("%d jobs on a rung; write 1 to %d", x.Jobs, MaxTasks)
		case !(x.Units > 0) || math.IsInf(x.Units, 1) || x.Units > 1e15:
			return fmt.Errorf("%v units of work on a rung; write a number above 0", x.Units)
		case i > 0 && x.Jobs > r[i-1].Jobs:
			return errWidens
		}
	}
	return nil
}

// All are the rungs that there are.
func (r *Rungs) All() []Rung {
	n := 0
	for n < MaxRungs && r[n] != (Rung{}) {
		n++
	}
	return r[:n]
}

// String is the text that ParseRungs reads.
func (r Rungs) String() string {
	var b []byte
	for i, x := range r.All() {
		if i > 0 {
			b = append(b, '+')
		}
		b = append(strconv.AppendInt(b, int64(x.Jobs), 10), 'x')
		b = strconv.AppendFloat(b, x.Units, 'f', -1, 64)
	}
	return string(b)
}
