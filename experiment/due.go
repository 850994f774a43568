package experiment

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// Due says which deadlines jobs without one are given: the submission plus the run time times a
// factor from Least to Most. The zero value gives none. It is a flag (--deadlines).
type Due struct {
	Least, Most float64 // above 0
	Soft        float64 // part of the deadlines that are soft
	None        float64 // part of the jobs that stay without
}

// mostFactor bounds the factors, so that no deadline overflows.
const mostFactor = 1000

// Set reads a text such as 0.5-1.5,soft=30%,none=20%.
func (d *Due) Set(text string) error {
	var out Due
	for i, part := range strings.Split(text, ",") {
		key, value, named := strings.Cut(part, "=")
		var err error
		switch {
		case i == 0:
			least, most, _ := strings.Cut(part, "-")
			if most == "" {
				most = least
			}
			out.Least, err = strconv.ParseFloat(least, 64)
			if out.Most, _ = strconv.ParseFloat(most, 64); err != nil || !(out.Least > 0 && out.Least <= out.Most && out.Most <= mostFactor) {
				return fmt.Errorf("%q: write a range of factors above 0, 1000 at most, such as 0.5-1.5", part)
			}
		case named && key == "soft":
			out.Soft, err = partOf(value)
		case named && key == "none":
			out.None, err = partOf(value)
		default:
			err = fmt.Errorf("%q: write soft=30%% or none=20%%", part)
		}
		if err != nil {
			return err
		}
	}
	*d = out
	return nil
}

// partOf reads a part of a whole, written as 30% or 0.3.
func partOf(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return 0, fmt.Errorf("%q: write a part from 0 to 100%%", text)
	}
	return f, nil
}

// String writes what Set reads; empty for the zero value.
func (d *Due) String() string {
	if *d == (Due{}) {
		return ""
	}
	text := fmt.Sprintf("%g-%g", d.Least, d.Most)
	if d.Soft > 0 {
		text += fmt.Sprintf(",soft=%g", d.Soft)
	}
	if d.None > 0 {
		text += fmt.Sprintf(",none=%g", d.None)
	}
	return text
}

// Type names the flag's value in the help.
func (d *Due) Type() string { return "RANGE" }

// jobs gives the jobs of a source their deadlines; the remark is to be told at the end.
func (d Due) jobs(src trace.Source, seed uint64) (trace.Source, func() string) {
	if d == (Due{}) {
		return src, nothingToTell
	}
	a := &gen.AssumedDeadlines{Source: src, Seed: seed, Least: d.Least, Most: d.Most, Soft: d.Soft, None: d.None}
	return a, func() string {
		if a.Jobs == 0 {
			return ""
		}
		return fmt.Sprintf("%s without a deadline: each was given one, its submission plus its run time times a factor drawn by its number (--deadlines %s, --seed %d)", unit.CountOrNo(a.Jobs, "job"), d.String(), seed)
	}
}
