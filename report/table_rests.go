package report

import (
	"encoding/json"
	"slices"
	"strings"
)

// rest is what the figures of a run rest on, as far as it bears on what they are worth.
type rest struct {
	estimates string   // Result.Estimates
	told      bool     // Result.ToldBeliefs
	lacks     []string // Result.Lacks
}

// The marks behind the names of runs.
const (
	markTruth = "*" // the policy knew true run times, perhaps with an error on them, or true speeds and gains
	markLacks = "!" // it lacked what it lives on
)

// knewTruth tells whether the policy went by true run times.
func (r *rest) knewTruth() bool { return strings.HasPrefix(r.estimates, "oracle") }

// Informed tells whether the policy went by true run times, perhaps with an error on them.
func (r *Result) Informed() bool { return (&rest{estimates: r.Estimates}).knewTruth() }

// Marks stand behind the name of the run in tables; empty: there is nothing to note.
func (r *Result) Marks() string { return (&rest{r.Estimates, r.ToldBeliefs, r.Lacks}).marks() }

// marks stand behind the name of a run; empty: there is nothing to note.
func (r *rest) marks() string {
	out := ""
	if r.knewTruth() || r.told {
		out += markTruth
	}
	if len(r.lacks) > 0 {
		out += markLacks
	}
	return out
}

// LacksText is what a policy lacks in one line; it is empty where it lacks nothing.
func LacksText(lacks []string) string { return strings.Join(lacks, ". And ") }

// Notes explain changes from a baseline, and the marks behind the names of runs, a line each. Runs with the same note
// share a line.
func (t *Table) Notes() []string {
	var out []string
	if t.shown {
		out = append(out, "Times of other rows are changes from "+clean(t.names[t.base])+", of the jobs that ended in both.")
	}
	for i := range t.rests {
		if r := &t.rests[i]; r.knewTruth() {
			line := markTruth + " knew the true run times (--estimates " + r.estimates + ")"
			if r.estimates != "oracle" {
				line = markTruth + " knew the true run times but for an error (--estimates " + r.estimates + ")"
			}
			if !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	for i := range t.rests {
		if line := markTruth + " knew true speeds and gains, which it could have learnt (--beliefs true)"; t.rests[i].told && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	var texts []string
	names := map[string][]string{}
	for i := range t.rests {
		if text := LacksText(t.rests[i].lacks); text != "" {
			if names[text] == nil {
				texts = append(texts, text)
			}
			names[text] = append(names[text], clean(t.names[i]))
		}
	}
	for _, text := range texts {
		out = append(out, markLacks+" "+strings.Join(names[text], ", ")+": "+text)
	}
	return out
}

// json is the end of the object of a run.
func (r *rest) json() ([]byte, error) {
	var estimates *string
	if r.estimates != "" {
		estimates = &r.estimates
	}
	source, err := json.Marshal(estimates)
	if err != nil {
		return nil, err
	}
	lacks, err := json.Marshal(some(r.lacks))
	return slices.Concat([]byte(", \"estimates\": "), source, []byte(", \"lacks\": "), lacks, []byte("}")), err
}
