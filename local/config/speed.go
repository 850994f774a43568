package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/internal/yamltext"
	"github.com/norn-scheduler/norn/perf"
)

// Speed is how fast jobs of a Model, or all others where that is empty, run on devices
// of a Type, relative to the type to which run times refer; 0: they cannot run there.
type Speed struct {
	Type, Model string
	Speed       float64
}

// readSpeed takes one entry of speeds.
func (c *Config) readSpeed(n ast.Node) error {
	s := Speed{Speed: -1}
	err := yamltext.Mapping(n, "a speed", yamltext.Keys{"type": name(&s.Type), "model": name(&s.Model), "speed": yamltext.Value(&s.Speed, parseSpeed)})
	switch {
	case err != nil:
		return err
	case s.Type == "" || s.Speed < 0:
		return yamltext.Fault(n, "a speed needs type and speed")
	case slices.ContainsFunc(c.Speeds, func(o Speed) bool { return o.Type == s.Type && o.Model == s.Model }):
		return yamltext.Fault(n, "the speed on %q is given twice", s.Type)
	}
	c.Speeds = append(c.Speeds, s)
	return nil
}

func parseSpeed(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1000) {
		return 0, fmt.Errorf("%q: write how many times as fast, such as 0.5", s)
	}
	return v, nil
}

// Line is the speed as the file has it.
func (s Speed) Line() string {
	parts := []string{"type: " + yamltext.Quote(s.Type)}
	if s.Model != "" {
		parts = append(parts, "model: "+yamltext.Quote(s.Model))
	}
	return "- {" + strings.Join(append(parts, "speed: "+strconv.FormatFloat(s.Speed, 'g', -1, 64)), ", ") + "}"
}

// Declared is how fast jobs are believed to run on each type; nil: equally fast on all.
func (c *Config) Declared() perf.Typed {
	if len(c.Speeds) == 0 {
		return nil
	}
	d := perf.Declared{}
	for _, s := range c.Speeds {
		d[perf.ModelOn{Model: s.Model, Type: s.Type}] = s.Speed
	}
	return d
}
