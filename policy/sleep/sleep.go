// Package sleep decides which nodes of a cluster sleep while nobody needs them, beside any policy.
//
// Nouns:
//   - The used nodes are those of which a job has anything, and those that waiting jobs need.
//   - The awake nodes are those that work, and those that boot.
//   - A step is a period of ten minutes. The use of a step is the most nodes that were used in it.
//   - The buffer is idle nodes that stay awake for jobs to come.
//
// CES is the cluster energy saving service of Hu et al., "Characterization and Prediction of Deep
// Learning Workloads in Large-Scale GPU Datacenters", SC 2021, section 4.3. Nodes go to sleep only if
// the use has fallen and is foretold to stay low. Vanilla, its baseline, sends every idle node to
// sleep at each step.
package sleep

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of a sleeper.
type Config interface {
	// Params binds the settings.
	Params() param.Set
	// Sleeper makes a sleeper that has seen nothing yet, or says which setting is wrong.
	Sleeper() (sched.Sleeper, error)
}

// Entry is a sleeper by name.
type Entry struct {
	Name  string
	Title string
	New   func() Config
}

// Table is all sleepers.
func Table() []Entry {
	return []Entry{
		{"ces", "nodes sleep when the use has fallen and is foretold to stay low (Helios, SC 2021)", func() Config { return NewCES() }},
		{"vanilla", "every idle node sleeps at once", func() Config { return NewVanilla() }},
	}
}

// Parse reads a sleeper with settings, as in ces(buffer=7,keep=12).
func Parse(text string) (Config, error) {
	name, settings, err := param.Call(text)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, e := range Table() {
		if known = append(known, e.Name); e.Name != name {
			continue
		}
		c := e.New()
		if err := c.Params().SetAll(settings); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		_, err := c.Sleeper()
		return c, err
	}
	return nil, fmt.Errorf("%q is no way to choose nodes that sleep%s (there are %s)", name, param.Near(name, known), strings.Join(known, ", "))
}

// DefaultPeriod is the length of a step.
const DefaultPeriod = 10 * time.Minute
