package experiment

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/policy/stages"
	"github.com/norn-scheduler/norn/sim/dag"
)

// StagePolicies are policies of stages with their settings. Weights are those of decima.
func StagePolicies(choices []Choice, weights *stages.Weights) ([]stages.Policy, error) {
	var out []stages.Policy
	for i, c := range choices {
		var names []string
		var cfg stages.Config
		for _, e := range stages.Table(weights) {
			if names = append(names, e.Name); e.Name == c.Policy {
				cfg = e.New()
			}
		}
		if cfg == nil {
			return nil, fmt.Errorf("%s: a trace of graphs of stages knows %s%s", c.Policy, strings.Join(names, ", "), param.Near(c.Policy, names))
		}
		for _, s := range c.Settings {
			if err := cfg.Params().Set(s.Name, s.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Policy, err)
			}
		}
		if slices.ContainsFunc(choices[:i], func(o Choice) bool { return o.String() == c.String() }) {
			return nil, fmt.Errorf("%s is named twice", c)
		}
		p, err := cfg.Policy()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Policy, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// WriteGraphs writes what came of a run over a trace of graphs of stages: the life of each job, and the figures.
func (f *Folder) WriteGraphs(name string, r *dag.Result, s *dag.Summary) error {
	if err := os.MkdirAll(f.Of(name), 0o777); err != nil {
		return err
	}
	if err := fileio.CreateWhole(filepath.Join(f.Of(name), jobsName), r.WriteJobs); err != nil {
		return err
	}
	return fileio.CreateWhole(filepath.Join(f.Of(name), summaryName), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	})
}
