package published

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
)

// Rule is how near a result is to be met.
type Rule uint8

// The rules.
const (
	Exact Rule = iota // the same jobs, each with equal start and end
	Mean              // mean JCT and makespan within some per cent
	Info              // for reading only: it never fails
)

func (r Rule) String() string { return [...]string{"exact", "mean", "info"}[r] }

// ParseRule reads the name of a rule: exact, mean or info.
func ParseRule(s string) (Rule, error) {
	for r := Exact; r <= Info; r++ {
		if r.String() == s {
			return r, nil
		}
	}
	return 0, harness.Unknown("match", s, []string{"exact", "mean", "info"})
}

// Match is how near a result is to be met: a rule with its figure.
type Match struct {
	Rule    Rule
	Percent float64 // of Mean
}

// ParseMatch reads a match as a manifest writes it: exact, mean:2%, info.
func ParseMatch(s string) (Match, error) {
	kind, figure, _ := strings.Cut(s, ":")
	rule, err := ParseRule(kind)
	m := Match{Rule: rule}
	if err != nil || rule != Mean {
		if err == nil && figure != "" {
			err = fmt.Errorf("match %q: %s takes no figure", s, kind)
		}
		return m, err
	}
	m.Percent, err = strconv.ParseFloat(strings.TrimSuffix(figure, "%"), 64)
	if err != nil || !(m.Percent >= 0) || math.IsInf(m.Percent, 0) {
		return m, fmt.Errorf("match %q: write mean:P%%, with P in per cent", s)
	}
	return m, nil
}

func (m Match) String() string {
	if m.Rule == Mean {
		return "mean:" + strconv.FormatFloat(m.Percent, 'f', -1, 64) + "%"
	}
	return m.Rule.String()
}

// Met tells whether a comparison is near enough.
func (m Match) Met(c *harness.Comparison) bool {
	switch m.Rule {
	case Exact:
		return c.Exact()
	case Mean:
		return c.Within(m.Percent)
	}
	return true
}

// Line is a line of a manifest.
type Line struct {
	Request
	Format string // of the trace
	Result string // path of the simulator's own result
	Match  Match  // how near it is to be met
	Note   string
}

// ReadManifest reads a manifest: CSV with the columns simulator, trace, format,
// cluster, policy, result, match and perhaps note. Paths in it are relative to
// its folder. A line without a trace may name it in its note (noted).
func ReadManifest(path string) ([]Line, error) {
	t, err := harness.OpenTable(path)
	if err != nil {
		return nil, err
	}
	return readManifest(t, filepath.Dir(path))
}

func readManifest(t *harness.Table, folder string) ([]Line, error) {
	at, err := t.Need("simulator", "trace", "format", "cluster", "policy", "result", "match")
	if err != nil {
		return nil, err
	}
	note := t.Column("note")
	var lines []Line
	for {
		more, err := t.Next()
		if err != nil || !more {
			return lines, err
		}
		if t.Field(at[0]) == "" {
			return nil, t.Bad(at[0], "the name of a simulator")
		}
		l := Line{
			Request: Request{
				Simulator: t.Field(at[0]), Trace: within(folder, t.Field(at[1])),
				Cluster: t.Field(at[3]), Policy: t.Field(at[4]),
			},
			Format: t.Field(at[2]), Result: within(folder, t.Field(at[5])), Note: t.Field(note),
		}
		if l.Trace == "" {
			l.Trace = noted(folder, l.Note)
		}
		if isFile(l.Cluster) {
			l.Cluster = within(folder, l.Cluster)
		}
		if l.Match, err = ParseMatch(t.Field(at[6])); err != nil {
			return nil, t.Bad(at[6], "exact, mean:P% or info")
		}
		lines = append(lines, l)
	}
}

// noted is the trace of a line that names none but in its note, "FILE of FOLDER": the folder is beside that of the
// manifest.
func noted(folder, note string) string {
	file, at, ok := strings.Cut(note, " of ")
	if !ok || strings.ContainsAny(file+at, " \t") {
		return ""
	}
	return within(filepath.Dir(folder), at+"/"+file)
}

// within is a path of a manifest, seen from where the program runs.
func within(folder, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, filepath.FromSlash(path))
}

// isFile tells whether a cluster is the path of a description and not a name.
func isFile(cluster string) bool {
	cluster = strings.TrimSuffix(cluster, ".gz")
	return strings.HasSuffix(cluster, ".csv") || strings.HasSuffix(cluster, ".txt")
}

// Verdict is what became of a Line.
type Verdict uint8

// The verdicts.
const (
	OK      Verdict = iota // the result is met
	Differs                // the result is not met, or the run failed
	Read                   // the result is for reading only, and another one
	Absent                 // Norn does not have the simulator or the policy yet
)

func (v Verdict) String() string { return [...]string{"ok", "differs", "info", "not there yet"}[v] }

// Outcome is what became of a Line.
type Outcome struct {
	Line
	Absent string // why it was not run; empty when it was
	Err    error  // why it could not be run
	harness.Comparison
}

// Verdict tells what became of the line. A line that was not run is never OK.
func (o *Outcome) Verdict() Verdict {
	switch {
	case o.Absent != "":
		return Absent
	case o.Err != nil || !o.Match.Met(&o.Comparison):
		return Differs
	case o.Match.Rule == Info && !o.Exact():
		return Read
	}
	return OK
}

// Why is the reason for a verdict in words: the first difference, the error, or
// what is not there. It is empty where there is nothing to tell.
func (o *Outcome) Why() string {
	switch {
	case o.Absent != "":
		return o.Absent
	case o.Err != nil:
		return o.Err.Error()
	}
	return o.First
}

// Validate carries out lines one after the other and reports each outcome. It
// only fails when it is interrupted.
func Validate(ctx context.Context, lines []Line, report func(*Outcome)) error {
	for _, l := range lines {
		o := Outcome{Line: l, Absent: absent(l.Request)}
		if o.Absent == "" {
			_, o.Comparison, o.Err = Against(ctx, l.Request, l.Result)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		report(&o)
	}
	return nil
}

// absent says why Norn does not have a run yet; empty when it has it.
func absent(r Request) string {
	s, err := ByName(r.Simulator)
	switch {
	case err != nil:
		return "the simulator " + r.Simulator
	case s.Has(r.Policy):
		return ""
	case strings.HasPrefix(r.Policy, "multi-dlas"):
		return "GPUs set aside by size of job"
	}
	return "the policy " + r.Policy
}
