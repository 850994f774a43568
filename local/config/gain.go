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

// Gain is what one fine-tuning task gives another one of the same backbone: how many
// times less work To takes when it goes on from From, and when both are trained as
// one; 0: as much as alone.
type Gain struct {
	Backbone, From, To string
	After, Together    float64
}

// readGain takes one entry of gains.
func (c *Config) readGain(n ast.Node) error {
	g := Gain{}
	err := yamltext.Mapping(n, "a gain", yamltext.Keys{
		"backbone": name(&g.Backbone), "from": name(&g.From), "to": name(&g.To),
		"after": yamltext.Value(&g.After, parseGain), "together": yamltext.Value(&g.Together, parseGain),
	})
	same := func(o Gain) bool { return o.Backbone == g.Backbone && o.From == g.From && o.To == g.To }
	switch {
	case err != nil:
		return err
	case g.Backbone == "" || g.From == "" || g.To == "":
		return yamltext.Fault(n, "a gain needs backbone, from and to")
	case slices.ContainsFunc(c.Gains, same):
		return yamltext.Fault(n, "the gain from %q to %q is given twice", g.From, g.To)
	}
	c.Gains = append(c.Gains, g)
	return nil
}

func parseGain(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= 1000) {
		return 0, fmt.Errorf("%q: write how many times less work it is, such as 1.5", s)
	}
	return v, nil
}

// Line is the gain as the file has it.
func (g Gain) Line() string {
	parts := []string{"backbone: " + yamltext.Quote(g.Backbone), "from: " + yamltext.Quote(g.From), "to: " + yamltext.Quote(g.To)}
	for _, v := range []struct {
		key   string
		value float64
	}{{"after", g.After}, {"together", g.Together}} {
		if v.value > 0 {
			parts = append(parts, v.key+": "+strconv.FormatFloat(v.value, 'g', -1, 64))
		}
	}
	return "- {" + strings.Join(parts, ", ") + "}"
}

// Transfer is what is believed that merged jobs learn from each other; nil: nothing.
func (c *Config) Transfer() perf.Transfer {
	if len(c.Gains) == 0 {
		return nil
	}
	gains := make([]perf.Gain, len(c.Gains))
	for i, g := range c.Gains {
		gains[i] = perf.Gain{From: perf.Task{Backbone: g.Backbone, Dataset: g.From}, To: perf.Task{Backbone: g.Backbone, Dataset: g.To}, After: g.After, Together: g.Together}
	}
	return perf.NewGains(nil, gains)
}
